"""Signs that the processes of a program work, although they print nothing: of GPUs, processors, files, and the network.

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
# The agents of a node and of other programs use the same network.
_NETWORK_BYTES_PER_SECOND = 1_000_000
_NETWORK = Path("/proc/net/dev")
_PERCENT_OF_GPU_MEMORY = 2
_QUESTION = ("nvidia-smi", "--query-gpu=utilization.memory", "--format=csv,noheader,nounits")
# Lines of /proc/PID/io. The first two have what the process has read and written by calls, and the others what its
# mapped memory has read and written: proc_pid_io(5).
_OF_FILES = ("rchar", "wchar", "read_bytes", "write_bytes")
_DEVICES = Path("/dev")
# What nvidia-smi says without access to a GPU, and of one that has fallen off the bus:
# https://github.com/pytorch/pytorch/issues/190132
# https://github.com/NVIDIA/open-gpu-kernel-modules/issues/387 (both read 2026-11-29)
_NO_GPU = "No devices were found"
_LOST_GPU = "Unable to determine the device handle for "
# Nothing says how much of a Neuron device is used without its driver's own tools.
_NEURON = "/dev/neuron0"


class SignsOfWork:
    """What the processes below this one have used since the last look."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._processor = self._bytes = self._network = 0.0
        self._gpus: subprocess.Popen[str] | None = None
        self._has_gpus = True

    def look(self) -> bool:
        """Return whether the program has worked since the last look. The first look compares with nothing."""
        now, pids = time.monotonic(), descendants()
        processor = sum(map(seconds_of_processor, pids))
        written, network = sum(map(_bytes_of_files, pids)), _bytes_of_network()
        # At the first look, all of it is of an earlier time. The sums are smaller when processes have ended.
        seconds = max(now - self._at, 0.001) if self._at is not None else math.inf
        uses_files = (written - self._bytes) / seconds > _BYTES_PER_SECOND
        uses_files |= (network - self._network) / seconds > _NETWORK_BYTES_PER_SECOND
        uses_processors = (processor - self._processor) / seconds > _PROCESSORS
        self._at, self._processor, self._bytes, self._network = now, processor, written, network
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
        lines = [line.strip() for line in self._gpus.communicate()[0].splitlines()]
        self._gpus = None
        # A part of a GPU (MIG) has no number but `[N/A]`, so that nothing says that it is idle.
        numbers = [line for line in lines if line.isdigit() or line.startswith("[")]
        if not numbers:
            # A node without GPUs can have nvidia-smi. A job under Slurm sees only the GPUs that it requests.
            self._has_gpus = any(_DEVICES.glob("nvidia[0-9]*")) and _NO_GPU not in lines
            # Other errors are of the driver, whose GPUs may work.
            return self._has_gpus and not any(_LOST_GPU in line for line in lines)
        return any(not each.isdigit() or int(each) > _PERCENT_OF_GPU_MEMORY for each in numbers)

    def close(self) -> None:
        """End the question for the use of the GPUs, which a broken driver never answers."""
        if self._gpus is not None:
            self._gpus.kill()
            self._gpus = None


def _bytes_of_files(pid: int) -> int:
    """Return how many bytes a process has read and written."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return sum(int(line.partition(":")[2]) for line in lines if line.startswith(_OF_FILES))
    return 0


def _bytes_of_network() -> int:
    """Return how many bytes the node has received and sent: proc_pid_net(5).

    The files of a process show no bytes that it receives or sends by recv() and send(), as AWS's libraries for S3 do:
    https://github.com/awslabs/aws-c-io/blob/main/source/posix/socket.c (read 2026-11-29)
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        devices = [line.partition(":") for line in _NETWORK.read_text().splitlines()[2:]]
        # Processes of a node talk to each other by the device lo, for example to a store.
        fields = [numbers.split() for name, _, numbers in devices if name.strip() != "lo"]
        return sum(int(each[0]) + int(each[8]) for each in fields)
    return 0
