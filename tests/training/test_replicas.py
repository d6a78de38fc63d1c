"""A run whose replicas differ by one bit names the rank, and ends with the same loss as a run without the error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.conftest import Launch, Run
from tests.training.torchrun_server import TorchrunServer
from training.config.job import Job
from training.hosts.suspect_nodes import suspicions
from training.hosts.this_node import node_name

if TYPE_CHECKING:
    from torch import Tensor

NAMES = ["embedding", "wq", "wq", "wk"]


def sums(*rows: list[int]) -> Tensor:
    import torch

    return torch.tensor(rows)


def test_replicas_with_equal_sums_do_not_deviate() -> None:
    from training.replicas import deviation

    assert deviation(NAMES, sums([1, 2, 3, 4], [1, 2, 3, 4]), [0, 4]) is None


def test_the_rank_that_differs_from_the_majority_is_named_with_its_tensors() -> None:
    from training.replicas import Deviation, deviation

    found = deviation(NAMES, sums([1, 2, 3, 4], [1, 2, 9, 8], [1, 2, 3, 4]), [1, 5, 9])
    assert found == Deviation(ranks=(5,), tensors=("wq", "wk"), others=2)


def test_two_ranks_that_deviate_in_different_ways_are_both_named() -> None:
    from training.replicas import Deviation, deviation

    found = deviation(NAMES, sums([1, 2, 3, 4], [1, 2, 9, 4], [1, 2, 3, 4], [7, 2, 3, 4], [1, 2, 3, 4]), range(5))
    assert found == Deviation(ranks=(1, 3), tensors=("embedding", "wq"), others=3)


def test_with_two_replicas_both_ranks_are_named() -> None:
    from training.replicas import Deviation, deviation

    found = deviation(NAMES, sums([1, 2, 3, 4], [0, 2, 3, 4]), [0, 4])
    assert found == Deviation(ranks=(0, 4), tensors=("embedding",), others=0)


def test_a_step_that_is_taken_again_tells_which_replica_was_wrong() -> None:
    import torch

    from training.observe.replica_verdict import Doubt, verdict

    doubt = Doubt(6, (0, 4), ("a, cuda:0", "b, cuda:0"), (1, 2), ((2, 3), (2, 9)))
    assert doubt.wrong(torch.tensor([1, 2, 9, 4])) == (0,)
    assert doubt.wrong(torch.tensor([1, 2, 3, 4])) == (1,)
    assert doubt.wrong(torch.tensor([1, 0, 0, 4])) == (0, 1)
    # The model has fewer blocks now.
    assert doubt.wrong(torch.tensor([1])) == ()
    assert verdict(doubt, (1,)) == "rank 4 (b, cuda:0) had wrong weights"
    unclear = "ranks 0 (a, cuda:0), 4 (b, cuda:0) all had other weights than now"
    assert verdict(doubt, (0, 1)) == verdict(doubt, ()) == unclear


def test_a_comparison_without_replicas_is_refused(job: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"every is 8, but parallel\.dp_replicate is 1"):
        Job.model_validate(job | {"replica_check": {"every": 8}})
    assert Job.model_validate(job | {"replica_check": {"every": 8}, "parallel": {"dp_replicate": 2}})


# Five CPU seconds. The next test finds a flipped bit, too, and takes the step again after a restart.
@pytest.mark.exhaustive
def test_a_flipped_bit_is_found_and_the_run_ends_with_the_same_loss(launch: Launch, job: dict[str, Any]) -> None:
    document = job | {
        "parallel": {"dp_shard": 1, "dp_replicate": 3},
        "batch": {"global": 6, "micro": 2},
        "steps": 8,
        "replica_check": {"every": 2},
        "checkpoint": job["checkpoint"] | {"every": 4},
    }

    def run(name: str, faults: list[dict[str, Any]]) -> tuple[Run, str]:
        own = document | {"checkpoint": document["checkpoint"] | {"location": str(Path(job["data"]["train"]) / name)}}
        restarts = {"PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "0.1"}
        module = "tests.training.faulty_train"
        started = launch(own, 3, name=name, module=module, FAULTS=json.dumps(faults), **restarts)
        return started, started.finish()

    untouched, said = run("untouched", [])
    assert "replicas differ" not in said and not untouched.events("replicas_differ")
    # Step 5 sees the samples 24 to 29. The next comparison is after step 6, and the newest checkpoint of step 4.
    broken, said = run("broken", [{"samples": [24, 29], "rank": 2, "kind": "flip"}])
    (event,) = broken.events("replicas_differ")
    assert (event["step"], event["ranks"]) == (6, [2])
    assert "rank 2 (" in said and "differs from the 2 other replicas in " in said
    (named,) = suspicions(broken.directory, node_name())
    assert named.reason.startswith("wrong weights after step 6 on process ")
    assert len(broken.events("start")) == 2
    assert [each["step"] for each in broken.events("resumed")] == [4]
    (end,), (expected,) = broken.events("end"), untouched.events("end")
    assert (end["step"], end["loss_hex"]) == (8, expected["loss_hex"])


@pytest.mark.parametrize("broken", [1, pytest.param(0, marks=pytest.mark.exhaustive)])
def test_of_two_replicas_the_one_that_was_wrong_is_named_when_the_step_is_taken_again(
    broken: int, launch: Launch, job: dict[str, Any]
) -> None:
    """Two replicas have no majority. The restarted run repeats the step, and reproduces the correct weights."""
    from training.observe.replica_verdict import FILE

    # The next comparison is after step 8 with a checkpoint, and the restarted run resumes from step 4.
    document = job | {
        "parallel": {"dp_shard": 1, "dp_replicate": 2},
        "steps": 10,
        "replica_check": {"every": 100},
        "checkpoint": job["checkpoint"] | {"every": 4},
    }
    faults = [{"samples": [32, 39], "rank": broken, "kind": "flip"}]
    restarts = {"PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "0.1"}
    run = launch(document, 2, module="tests.training.faulty_train", FAULTS=json.dumps(faults), **restarts)
    said = run.finish()
    (differ,), (judged,) = run.events("replicas_differ"), run.events("replicas_judged")
    # Step 5 sees the samples 32 to 39. By the comparison after step 8, the error has spread to both replicas.
    assert (differ["step"], differ["ranks"]) == (5, [0, 1])
    assert (judged["step"], judged["ranks"]) == (5, [broken])
    assert f"the replicas agree after step 5, which was taken again: rank {broken} (" in said
    assert not (run.directory / FILE).exists()
    (named,) = suspicions(run.directory, node_name())
    assert named.reason.startswith("wrong weights after step 5 on process ")
    assert run.events("end")[-1]["step"] == 10


@pytest.mark.exhaustive
def test_replicas_of_every_optimizer_stay_equal_to_the_bit(torchrun: TorchrunServer) -> None:
    program = Path(__file__).parent / "replicas_of_optimizers.py"
    printed = torchrun.run_program(program, ranks=4)
    results = [json.loads(line.removeprefix("RESULT ")) for line in printed.splitlines() if line[:7] == "RESULT "]
    assert len(results) == 6
    # The program flips a bit after the steps, so that a comparison that sees nothing is noticed, too.
    assert [each for each in results if each["before"] is not None or each["after"] is None] == []
