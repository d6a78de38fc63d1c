"""Record a trace of some steps, and of the device's memory while they run (`--profile`)."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

# The first steps allocate, compile, and warm up. One more step starts the profiler itself.
STEPS_BEFORE = 4


@contextlib.contextmanager
def profiling(directory: Path, steps: int, device: torch.device) -> Iterator[Callable[[], None]]:
    """Record `steps` steps, from the sixth on. Call the yielded function after each step.

    It writes `trace.json` (for https://ui.perfetto.dev or chrome://tracing) and, on a GPU, `memory.pickle` (for
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
