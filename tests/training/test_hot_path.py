"""Between the first forward pass and the last step the host asks the device for nothing that it is not done with."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.conftest import SMALL_VARIANT
from training.config import Job

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from training.observe.reports import Reading

STEPS = 5
# The step before, when this one is under way.
READERS = {"reports.py"}
# The beginnings of documents are found in host memory. Processors, and fp32 on GPUs, attend by blocks.
WITHOUT_DEVICE = {"documents.py", "blockwise_attention.py"}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """This process as the only rank of a job; leaves signals and garbage collection as they were."""
    import torch
    import torch.distributed as dist

    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in place.items() | {("TRAINWAY_RUN", str(tmp_path / "run"))}:
        monkeypatch.setenv(name, value)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two would wait for each other on a busy machine
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    gc.enable()
    torch.set_num_threads(threads)
    dist.destroy_process_group()


def watched(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], list[str]]:
    """The files that read in steps without a checkpoint, and the order in which steps were given and read."""
    from tests.training.host_reads import Methods, Operators, Watch
    from training import step, train
    from training.observe.reports import Reading
    from training.step import accumulate

    watch, order, given = Watch(), list[str](), list[Reading]()
    made, values = Reading.__init__, Reading.values

    def first(*arguments: Any) -> Tensor:
        watch.began = True
        return accumulate(*arguments)

    def make(reading: Reading, *numbers: Tensor) -> None:
        made(reading, *numbers)
        given.append(reading)
        order.append(f"give {len(given)}")
        if len(given) == STEPS:
            watch.began = False  # a checkpoint follows

    def read(reading: Reading) -> list[float]:
        order.append(f"read {given.index(reading) + 1}")
        return values(reading)

    monkeypatch.setattr(step, "accumulate", first)
    monkeypatch.setattr(Reading, "__init__", make)
    monkeypatch.setattr(Reading, "values", read)
    with Methods(watch), Operators(watch):
        train.train(Job.model_validate(job), until_step=STEPS)
    return watch.files, order


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "fp16"},
        {
            "precision": "bf16",
            "variant": {"experts": 4},
            "data": {"mask_documents": True},
            "instability": {"spike_sigma": 6},
        },
    ],
)
@pytest.mark.usefixtures("alone")
def test_a_step_is_read_when_the_next_one_is_given(
    changes: dict[str, Any], job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = changes | {
        "data": job["data"] | changes.get("data", {}),
        "variant": SMALL_VARIANT | changes.get("variant", {}),
        "checkpoint": job["checkpoint"] | {"every": 99},
    }
    files, order = watched(job | changes, monkeypatch)
    assert files - WITHOUT_DEVICE == READERS
    late = [event for step in range(2, STEPS + 1) for event in (f"give {step}", f"read {step - 1}")]
    # The checkpoint has the loss of its own step, and the last step is told of as well.
    assert order == ["give 1", *late, f"read {STEPS}", f"read {STEPS}"]


def test_a_lap_waits_for_the_device_when_its_seconds_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from training.observe.laps import Laps, seconds

    waited: list[int] = []

    class Event:
        number = 0

        def __init__(self, device: torch.device, enable_timing: bool) -> None:
            assert device.type == "cuda"
            assert enable_timing
            self.at = Event.number = Event.number + 1

        def record(self) -> None: ...

        def synchronize(self) -> None:
            waited.append(self.at)

        def elapsed_time(self, other: Event) -> float:
            return 1000.0 * (other.at - self.at)

    monkeypatch.setattr(torch, "Event", Event)
    laps = Laps(torch.device("cuda"))
    laps.start()
    laps.lap("data_wait")
    laps.lap("forward")
    first = laps.end_step()
    laps.lap("forward")
    assert not waited
    spent = seconds(first)
    assert waited == [3], "for the last mark of its step, and not for the step that followed"
    assert (spent["data_wait"], spent["forward"]) == (1.0, 1.0)
