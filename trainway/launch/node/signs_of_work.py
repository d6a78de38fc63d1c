"""Signs that the processes of a program work, although they print nothing: of GPUs, processors, and files.

A rank that waits in a collective of NCCL keeps its GPU at 100 %, because a kernel spins, and its processor, because
CUDA spins. The memory of the GPU has nothing to do meanwhile: `utilization.memory` is the percentage of time in which
it was read or written. So this number counts on a node with GPUs, and processors count only on a node without any.
https://docs.nvidia.com/deploy/nvml-api/api/structnvmlUtilization__t.html
https://github.com/NVIDIA/nccl/issues/968 (both read 2026-11-30)
"""

import contextlib
import math
import subprocess
import time
from pathlib import Path

from trainway.launch.node.process_tree import descendants, seconds_of_processor

# What watches a program, such as the heartbeats of a store or the process of a tracker, uses less.
_PROCESSORS = 0.1
_BYTES_PER_SECOND = 200_000
_PERCENT_OF_GPU_MEMORY = 2
_QUESTION = ("nvidia-smi", "--query-gpu=utilization.memory", "--format=csv,noheader,nounits")
# Nothing says how much of a Neuron device is used without its driver's own tools.
_NEURON = "/dev/neuron0"


class SignsOfWork:
    """What the processes below this one have used since the last look."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._processor = self._bytes = 0.0
        self._gpus: subprocess.Popen[str] | None = None
        self._has_gpus = True

    def look(self) -> bool:
        """Return whether the program has worked since the last look. The first look compares with nothing."""
        now, pids = time.monotonic(), descendants()
        processor = sum(map(seconds_of_processor, pids))
        written = sum(map(_bytes_of_files, pids))
        # At the first look, all of it is of an earlier time. The sums are smaller when processes have ended.
        seconds = max(now - self._at, 0.001) if self._at is not None else math.inf
        uses_files = (written - self._bytes) / seconds > _BYTES_PER_SECOND
        uses_processors = (processor - self._processor) / seconds > _PROCESSORS
        self._at, self._processor, self._bytes = now, processor, written
        uses_gpus = self._answer()
        self._ask()
        return uses_files or (uses_gpus if self._has_gpus else uses_processors) or Path(_NEURON).exists()

    def _ask(self) -> None:
        """Ask for the use of the GPUs. The answer is taken at a later look, because a broken driver gives none."""
        if self._gpus is not None or not self._has_gpus:
            return
        try:
            self._gpus = subprocess.Popen(
                _QUESTION, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            self._has_gpus = False

    def _answer(self) -> bool:
        if self._gpus is None or self._gpus.poll() is None:
            return False
        said = self._gpus.communicate()[0].splitlines()
        self._gpus = None
        numbers = [line.strip() for line in said if line.strip()]
        # A part of a GPU (MIG) has no number, so that nothing says that it is idle.
        return any(not each.isdigit() or int(each) > _PERCENT_OF_GPU_MEMORY for each in numbers)


def _bytes_of_files(pid: int) -> int:
    """Return how many bytes a process has read and written, by what proc_pid_io(5) calls rchar and wchar."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return sum(int(line.partition(":")[2]) for line in lines if line.startswith(("rchar", "wchar")))
    return 0
