"""Every layout learns the same: the number of ranks decides how fast, not what.

Loss, gradient norm and the gradient of every parameter are those of one process without any parallelism. The loss
alone would not tell: a parameter can get no gradient at all, and the loss moves in the sixth digit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.representatives import chosen, with_representatives
from tests.training.torchrun_server import TorchrunServer

UNTIED = {"variant": {"tied": False}}
DOCUMENTS = {"data": {"train": "nowhere", "sequence_length": 32, "mask_documents": True}}
WINDOW = {"variant": {"sliding_window": 5}}
UNTIED_WINDOW = {"variant": {"tied": False, "sliding_window": 5}}
TWO_RANKS: dict[str, dict[str, Any]] = {
    "FSDP": {},
    "FSDP, untied": UNTIED,
    "FSDP that keeps its weights": {"memory": {"reshard_after_forward": False}},
    "FSDP, gradients accumulated unsharded": {"memory": {"gradient_accumulation": "unsharded"}},
    "DDP": {"parallel": {"dp_shard": 1, "dp_replicate": 2}},
    "TP, tied": {"parallel": {"tp": 2}},
    "TP": {"parallel": {"tp": 2}, **UNTIED},
    "TP with compile, tied": {"parallel": {"tp": 2}, "compile": "aot_eager"},
    "TP with compile": {"parallel": {"tp": 2}, "compile": "aot_eager", **UNTIED},
    "CP, gather": {"parallel": {"cp": 2}},
    "CP, all-to-all": {"parallel": {"cp": 2, "cp_method": "all-to-all"}},
    "CP with compile": {"parallel": {"cp": 2}, "compile": "aot_eager"},
    "PP, 1F1B": {"parallel": {"pp": 2}, **UNTIED},
    "PP, interleaved": {"parallel": {"pp": 2, "pp_schedule": "interleaved"}, **UNTIED},
    "PP, zero-bubble": {"parallel": {"pp": 2, "pp_schedule": "zero-bubble"}, **UNTIED},
    "AC, every second layer": {"memory": {"activation_checkpointing": "full", "checkpoint_every": 2}},
    "AC, full, with compile and accumulation": {
        "memory": {"activation_checkpointing": "full"},
        "compile": "aot_eager",
    },
    "AC, selective, with compile and accumulation": {
        "memory": {"activation_checkpointing": "selective"},
        "compile": "aot_eager",
    },
    "loss in chunks": {"memory": {"loss_chunks": 4}},
    "loss in chunks, untied": {"memory": {"loss_chunks": 4}, **UNTIED},
    "loss in chunks, PP": {"memory": {"loss_chunks": 4}, "parallel": {"pp": 2}, **UNTIED},
    "MoE": {"variant": {"experts": 4}},
    "MoE with EP, AC and compile": {
        "variant": {"experts": 4},
        "parallel": {"ep": 2},
        "memory": {"activation_checkpointing": "full"},
        "compile": "aot_eager",
    },
    "MoE with TP": {"variant": {"experts": 4}, "parallel": {"tp": 2}},
    "MoE with TP, AC": {
        "variant": {"experts": 4, "tied": False},
        "parallel": {"tp": 2},
        "memory": {"activation_checkpointing": "full"},
    },
    "MoE with EP x CP": {"variant": {"experts": 4}, "parallel": {"ep": 2, "cp": 2}},
    "window": WINDOW,
    "window and documents": {**WINDOW, **DOCUMENTS},
    "window, TP with compile": {"parallel": {"tp": 2}, "compile": "aot_eager", **WINDOW},
    "window, CP, gather": {"parallel": {"cp": 2}, **WINDOW},
    "window, CP, all-to-all": {"parallel": {"cp": 2, "cp_method": "all-to-all"}, **WINDOW},
    "window, PP": {"parallel": {"pp": 2}, **UNTIED_WINDOW},
    "window, MoE with EP x CP": {"variant": {"experts": 4, "sliding_window": 5}, "parallel": {"ep": 2, "cp": 2}},
    "documents": DOCUMENTS,
    "documents, DDP": {"parallel": {"dp_shard": 1, "dp_replicate": 2}, **DOCUMENTS},
    "documents, TP": {"parallel": {"tp": 2}, **DOCUMENTS},
    "documents, CP, gather": {"parallel": {"cp": 2}, "batch": {"global": 8, "micro": 2}, **DOCUMENTS},
    "documents, CP, gather, with compile": {"parallel": {"cp": 2}, "compile": "aot_eager", **DOCUMENTS},
    "documents, CP, all-to-all": {"parallel": {"cp": 2, "cp_method": "all-to-all"}, **DOCUMENTS},
    "documents, PP, interleaved": {"parallel": {"pp": 2, "pp_schedule": "interleaved"}, **UNTIED, **DOCUMENTS},
    "window and documents, PP, 1F1B": {"parallel": {"pp": 2}, **UNTIED_WINDOW, **DOCUMENTS},
    "window and documents, PP, zero-bubble": {
        "parallel": {"pp": 2, "pp_schedule": "zero-bubble"},
        **UNTIED_WINDOW,
        **DOCUMENTS,
    },
    "documents, MoE with EP": {"variant": {"experts": 4}, "parallel": {"ep": 2}, **DOCUMENTS},
    "documents, AC, full": {"memory": {"activation_checkpointing": "full"}, **DOCUMENTS},
    "documents, AC, selective, with compile": {
        "memory": {"activation_checkpointing": "selective"},
        "compile": "aot_eager",
        **DOCUMENTS,
    },
    "documents, offload": {"memory": {"offload": True}, **DOCUMENTS},
    "offload, AC": {"memory": {"offload": True, "activation_checkpointing": "full"}},
    "offload, MoE with EP": {"variant": {"experts": 4}, "parallel": {"ep": 2}, "memory": {"offload": True}},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "FSDP": {},
    "TP": {"parallel": {"tp": 2}},
    "CP": {"parallel": {"cp": 2}},
    "PP": {"parallel": {"pp": 2}, **UNTIED},
}
MIXED: dict[str, dict[str, Any]] = {
    f"{layout} in {precision}": {"precision": precision, **changes}
    for precision in ("bf16", "fp16")
    for layout, changes in LAYOUTS.items()
}
FLOAT8: dict[str, dict[str, Any]] = {
    "tensorwise": {"float8": {"recipe": "tensorwise"}},
    "tensorwise with compile": {"float8": {"recipe": "tensorwise"}, "compile": "aot_eager"},
    "tensorwise, gathered in float8": {"float8": {"recipe": "tensorwise", "all_gather": True}},
    "tensorwise, PP": {"float8": {"recipe": "tensorwise"}, "parallel": {"pp": 2}, **UNTIED},
    "tensorwise, TP, with compile": {
        "float8": {"recipe": "tensorwise"},
        "parallel": {"tp": 2},
        "compile": "aot_eager",
    },
    "rowwise, but for both ends": {"float8": {"recipe": "rowwise", "keep_first_and_last": True}},
    "rowwise, TP": {"float8": {"recipe": "rowwise"}, "parallel": {"tp": 2}},
    "mxfp8 with CP": {"float8": {"recipe": "mxfp8"}, "parallel": {"cp": 2}, "batch": {"global": 8, "micro": 2}},
}
FOUR_RANKS: dict[str, dict[str, Any]] = {
    "HSDP": {"parallel": {"dp_shard": 2, "dp_replicate": 2}},
    "HSDP, gradients accumulated unsharded": {
        "parallel": {"dp_shard": 2, "dp_replicate": 2},
        "memory": {"gradient_accumulation": "unsharded"},
    },
    "HSDP x TP": {"parallel": {"dp_shard": 1, "dp_replicate": 2, "tp": 2}},
    "HSDP x TP, offload": {"parallel": {"dp_shard": 1, "dp_replicate": 2, "tp": 2}, "memory": {"offload": True}},
    "FSDP x TP with compile, loss in chunks": {
        "parallel": {"dp_shard": 2, "tp": 2},
        "compile": "aot_eager",
        "memory": {"loss_chunks": 4},
    },
    "FSDP x TP, untied, loss in chunks": {
        "parallel": {"dp_shard": 2, "tp": 2},
        "memory": {"loss_chunks": 4},
        **UNTIED,
    },
    "FSDP x CP": {"parallel": {"dp_shard": 2, "cp": 2}},
    "CP of four": {"parallel": {"cp": 4}},
    "CP of four, window and documents": {"parallel": {"cp": 4}, **WINDOW, **DOCUMENTS},
    "CP x TP, documents": {"parallel": {"cp": 2, "tp": 2}, **DOCUMENTS},
    "CP x TP": {"parallel": {"cp": 2, "tp": 2}},
    "PP x FSDP": {"parallel": {"pp": 2, "dp_shard": 2}, **UNTIED},
    "TP x FSDP, MoE": {"parallel": {"tp": 2}, "variant": {"experts": 4}},
    "TP x CP, MoE, documents": {"parallel": {"tp": 2, "cp": 2}, "variant": {"experts": 4}, **DOCUMENTS},
    "EP x FSDP": {"parallel": {"ep": 2}, "variant": {"experts": 4}},
    "EP x HSDP": {"parallel": {"ep": 2, "dp_shard": 2, "dp_replicate": 2}, "variant": {"experts": 4}},
    "EP x TP": {"parallel": {"ep": 2, "tp": 2}, "variant": {"experts": 4}},
    "EP x TP, AC and compile": {
        "parallel": {"ep": 2, "tp": 2},
        "variant": {"experts": 4, "tied": False},
        "memory": {"activation_checkpointing": "full"},
        "compile": "aot_eager",
    },
    "EP x PP": {"parallel": {"ep": 2, "pp": 2}, "variant": {"experts": 4, "tied": False}},
    "PP of four": {"parallel": {"pp": 4}, **UNTIED},
    "PP x CP, zero-bubble": {"parallel": {"pp": 2, "cp": 2, "pp_schedule": "zero-bubble"}, **UNTIED},
    "PP x TP, interleaved, with AC and compile": {
        "parallel": {"pp": 2, "tp": 2, "pp_schedule": "interleaved"},
        "memory": {"activation_checkpointing": "selective"},
        "compile": "aot_eager",
        **UNTIED,
    },
}
# Experts are then divided in three ways: between ranks, into slices, and by FSDP or a pipeline.
EIGHT_RANKS: dict[str, dict[str, Any]] = {
    "EP x TP x HSDP": {
        "parallel": {"ep": 2, "tp": 2, "dp_shard": 2, "dp_replicate": 2},
        "variant": {"experts": 4},
    },
    "EP x TP x FSDP, documents": {"parallel": {"ep": 2, "tp": 2}, "variant": {"experts": 4}, **DOCUMENTS},
    "EP x TP x CP": {"parallel": {"ep": 4, "tp": 2, "cp": 2}, "variant": {"experts": 4}},
    "EP x TP x PP": {"parallel": {"ep": 2, "tp": 2, "pp": 2}, "variant": {"experts": 4, "tied": False}},
}
# Documents and a window change attention, which each kind of parallelism divides in another way.
FOUR_RANKS |= {
    f"{layout}, window and documents": {
        **FOUR_RANKS[layout],
        **DOCUMENTS,
        "variant": {**FOUR_RANKS[layout].get("variant", {}), **WINDOW["variant"]},
    }
    for layout in (
        *("HSDP x TP", "FSDP x TP with compile, loss in chunks", "FSDP x CP", "PP x FSDP", "EP x HSDP", "EP x PP"),
        *("PP x CP, zero-bubble", "PP x TP, interleaved, with AC and compile"),
    )
}
EVALUATED: dict[str, dict[str, Any]] = {
    "PP x FSDP": {"parallel": {"pp": 2, "dp_shard": 2}},
    "PP x FSDP, interleaved": {"parallel": {"pp": 2, "dp_shard": 2, "pp_schedule": "interleaved"}},
    "PP x FSDP, zero-bubble": {"parallel": {"pp": 2, "dp_shard": 2, "pp_schedule": "zero-bubble"}},
    "PP x TP, with compile": {"parallel": {"pp": 2, "tp": 2}, "compile": "aot_eager"},
    "PP x CP, interleaved": {"parallel": {"pp": 2, "cp": 2, "pp_schedule": "interleaved"}},
    "PP x FSDP, interleaved, with experts": {
        "parallel": {"pp": 2, "dp_shard": 2, "pp_schedule": "interleaved"},
        "variant": {"experts": 4, "tied": False},
    },
    "PP of four, documents masked": {
        "parallel": {"pp": 4},
        "data": {"train": "nowhere", "sequence_length": 32, "mask_documents": True},
    },
}

# One of each kind of parallelism, and of what changes a layer, the loss, or where the state lies.
OF_TWO_RANKS = (
    *("FSDP", "DDP", "TP", "CP, all-to-all", "PP, 1F1B", "MoE with EP x CP"),
    *("AC, every second layer", "loss in chunks, untied", "documents, CP, gather"),
)
OF_FLOAT8 = ("tensorwise",)
# Each kind of parallelism has a layout of two ranks. Its combinations cost four ranks.
OF_FOUR_RANKS = ()

Learned = Callable[..., list[tuple[float, float]]]


@pytest.fixture(scope="module")
def two_ranks(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, Any]:
    """One start for all layouts and precisions."""
    float8 = {layout: {"precision": "bf16", **changes} for layout, changes in FLOAT8.items()}
    layouts = TWO_RANKS | MIXED | (float8 if find_spec("torchao") else {})
    return differences(torchrun, 2, chosen(request, layouts, "layout"))


@pytest.fixture(scope="module")
def four_ranks(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, Any]:
    return differences(torchrun, 4, chosen(request, FOUR_RANKS, "layout"))


@pytest.mark.parametrize("layout", with_representatives(TWO_RANKS, OF_TWO_RANKS))
def test_two_ranks_have_the_gradients_of_one_process(layout: str, two_ranks: dict[str, Any]) -> None:
    assert_equal_gradients(two_ranks[layout])


@pytest.mark.parametrize("layout", with_representatives(MIXED, ("FSDP in bf16",)))
def test_lower_precision_has_the_gradients_of_fp32_as_far_as_it_reaches(layout: str, two_ranks: dict[str, Any]) -> None:
    # Of a number bf16 keeps 8 bits, an error of 2^-9 = 0.2 %, and fp16 11; some dozen operators add theirs up.
    precision = 0.002 if "bf16" in layout else 0.00025
    assert two_ranks[layout]["loss"] < precision
    assert two_ranks[layout]["norm"] < 2 * precision
    assert two_ranks[layout]["gradient"] < 10 * precision, two_ranks[layout]["parameter"]


@pytest.mark.parametrize("layout", with_representatives(FLOAT8, OF_FLOAT8))
def test_float8_changes_the_gradients_by_its_own_precision(layout: str, two_ranks: dict[str, Any]) -> None:
    pytest.importorskip("torchao")
    assert two_ranks[layout]["loss"] < 1e-3
    assert two_ranks[layout]["norm"] < 5e-3
    # A number has 4 bits: an error of 2^-5 = 3 %, on both sides of a product. Much less would be another type.
    assert 0.03 < two_ranks[layout]["gradient"] < 0.2, two_ranks[layout]["parameter"]


@pytest.mark.parametrize("layout", with_representatives(FOUR_RANKS, OF_FOUR_RANKS))
def test_four_ranks_have_the_gradients_of_one_process(layout: str, four_ranks: dict[str, Any]) -> None:
    assert_equal_gradients(four_ranks[layout])


@pytest.mark.exhaustive
def test_eight_ranks_that_divide_experts_in_three_ways_have_the_gradients_of_one_process(
    torchrun: TorchrunServer,
) -> None:
    for difference in differences(torchrun, 8, EIGHT_RANKS).values():
        assert_equal_gradients(difference)


@pytest.fixture(scope="module")
def evaluated(torchrun: TorchrunServer, request: pytest.FixtureRequest) -> dict[str, Any]:
    asked = chosen(request, EVALUATED, "layout")
    layouts = {layout: {**UNTIED, **changes} for layout, changes in asked.items()}
    return differences(torchrun, 4, layouts, "pipeline_evaluation.py")


@pytest.mark.parametrize("layout", with_representatives(EVALUATED, ()))
def test_a_pipeline_evaluates_to_the_loss_of_one_process_and_goes_on_as_before(
    layout: str, evaluated: dict[str, Any]
) -> None:
    assert evaluated[layout]["loss"] < 1e-6
    assert evaluated[layout]["untouched"]
    assert evaluated[layout]["miscounted"] == 0


def differences(
    torchrun: TorchrunServer,
    ranks: int,
    layouts: dict[str, dict[str, Any]],
    program_name: str = "layout_gradients.py",
) -> dict[str, Any]:
    """How far each layout is from one process, all of them in one start: see the program's description."""
    printed = torchrun.run_program(Path(__file__).parent / program_name, json.dumps(layouts), ranks=ranks)
    results = [json.loads(line.removeprefix("RESULT ")) for line in printed.splitlines() if line[:7] == "RESULT "]
    assert [result["layout"] for result in results] == list(layouts)
    return {result["layout"]: result for result in results}


def assert_equal_gradients(difference: dict[str, Any]) -> None:
    assert difference["loss"] < 1e-6
    assert difference["norm"] < 1e-6
    # Of a sum in another order: float32 has 1.2e-7.
    assert difference["gradient"] < 2e-6, difference["parameter"]


@pytest.fixture
def learned(launch: Any, job: dict[str, Any], tmp_path: Path) -> Learned:
    """Runs the job to a step on some ranks and gives (loss, gradient norm) of each step.

    Runs of one `name` continue from each other's checkpoints.
    """

    def run(name: str, processes: int, micro: int, until: int = 4, **sections: Any) -> list[tuple[float, float]]:
        layout = {
            "batch": {"global": 8, "micro": micro},
            "checkpoint": {"location": str(tmp_path / f"{name}-checkpoints")},
        }
        started = launch(job | layout | sections, processes, "--until-step", str(until), name=name)
        started.finish()
        return [(event["loss"], event["grad_norm"]) for event in started.events("step")]

    return run


@pytest.mark.exhaustive
def test_two_ranks_that_accumulate_learn_what_one_rank_learns_at_once(learned: Learned) -> None:
    assert_same(learned("two", 2, micro=1), learned("one", 1, micro=8))


@pytest.mark.exhaustive
def test_a_run_that_changes_its_layout_on_the_way_learns_what_one_rank_learns(learned: Learned) -> None:
    interleaved = {"pp": 2, "tp": 2, "pp_schedule": "interleaved"}
    learned("many", 4, micro=2, until=2, parallel=interleaved, **UNTIED)
    many = learned("many", 4, micro=2, parallel={"dp_shard": 2, "cp": 2}, **UNTIED)
    assert_same(many, learned("one", 1, micro=8, **UNTIED))


@pytest.mark.exhaustive
def test_what_four_ranks_saved_goes_on_with_two_with_one_and_with_two_by_two(learned: Learned, tmp_path: Path) -> None:
    straight = learned("straight", 1, micro=8)
    four = learned("four", 4, micro=2, until=2)
    layouts = {"two": (2, {}), "one": (1, {}), "two by two": (4, {"dp_replicate": 2, "dp_shard": 2})}
    for name, (ranks, parallel) in layouts.items():
        shutil.copytree(tmp_path / "four-checkpoints", tmp_path / f"{name}-checkpoints")
        assert_same(four + learned(name, ranks, micro=2, parallel=parallel), straight)


@pytest.mark.exhaustive
def test_experts_go_on_as_they_were_and_come_together_from_other_ranks(learned: Learned) -> None:
    experts = {"variant": {"experts": 4}}
    straight = learned("straight", 1, micro=8, **experts)
    learned("again", 1, micro=8, until=2, **experts)
    again = learned("again", 1, micro=8, **experts)
    assert again == straight, "what the routers choose by is in the checkpoint, and what they count begins at nothing"
    for name, ranks, parallel in (("between ranks", 2, {"ep": 2}), ("into slices, too", 4, {"ep": 2, "tp": 2})):
        learned(name, ranks, micro=2, until=2, parallel=parallel, **experts)
        assert_same(learned(name, 1, micro=8, **experts), straight)


def assert_same(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> None:
    assert len(one) == len(other) == 4
    for (loss, norm), (other_loss, other_norm) in zip(one, other, strict=True):
        assert loss == pytest.approx(other_loss, rel=1e-6)
        assert norm == pytest.approx(other_norm, rel=1e-5)
