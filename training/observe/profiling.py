"""`--profile`: a trace of some steps, and of what is in the device's memory while they run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

# The first steps allocate, compile and warm up; one more goes to starting the profiler itself.
STEPS_BEFORE = 4


@contextlib.contextmanager
def profiling(directory: Path, steps: int, device: torch.device) -> Iterator[Callable[[], None]]:
    """Records `steps` steps, from the sixth on; what it yields is to be called after each step.

    Writes `trace.json` (for https://ui.perfetto.dev or chrome://tracing) and, of a GPU, `memory.pickle` (for
    https://pytorch.org/memory_viz) into the directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.memory._record_memory_history()

    def write(profiler: profile) -> None:
        profiler.export_chrome_trace(str(directory / "trace.json"))
        if on_gpu:
            torch.cuda.memory._dump_snapshot(str(directory / "memory.pickle"))  # type: ignore[no-untyped-call]
            torch.cuda.memory._record_memory_history(enabled=None)

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(
        activities=activities,
        schedule=schedule(wait=STEPS_BEFORE, warmup=1, active=steps, repeat=1),
        on_trace_ready=write,
        profile_memory=True,
    ) as profiler:
        yield profiler.step
