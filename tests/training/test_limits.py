"""A model that cannot be divided as the layout says is refused before it is built, with the number that is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from training import config
from training.config import Job
from training.config.presets import shape_of
from training.errors import UserError
from training.parallel import limits

ROOT = Path(__file__).parents[2]


def job_of(changes: dict[str, Any]) -> Job:
    document = {
        "name": "limits",
        "model": "tiny",
        "data": {"train": "nowhere", "sequence_length": 96},
        "batch": {"global": 48, "micro": 1},
        "steps": 1,
    }
    return Job.model_validate(document | changes)


@pytest.mark.parametrize(
    ("ranks", "changes", "sentence"),
    [
        (4, {"parallel": {"tp": 4}}, "parallel.tp is 4, which does not divide the 2 key and value heads"),
        (1, {"variant": {"heads": 6}}, "variant.heads is 6, which does not fit the width of attention, 128"),
        (
            1,
            {"variant": {"key_value_heads": 3}},
            "variant.key_value_heads is 3, which does not fit the number of query",
        ),
        (1, {"variant": {"experts": 2, "experts_per_token": 3}}, "experts_per_token is 3, but a layer has 2 experts"),
        (2, {"parallel": {"tp": 2}, "data": {"train": "x", "sequence_length": 31}}, "the 31 tokens of data.sequence"),
        (4, {"parallel": {"cp": 4, "cp_method": "all-to-all"}}, "parallel.cp is 4, which does not divide the 2 key"),
        (4, {"parallel": {"cp": 2, "tp": 2, "cp_method": "all-to-all"}}, "does not divide the 1 key and value heads"),
        (5, {"parallel": {"cp": 5}}, "96 is no multiple of 2 x 5 = 10"),
        (2, {"parallel": {"ep": 2}}, "parallel.ep is 2, but tiny has no experts"),
        (
            2,
            {"parallel": {"ep": 2}, "variant": {"experts": 3}},
            "parallel.ep is 2, which does not divide the 3 experts",
        ),
        (3, {"parallel": {"ep": 2}, "variant": {"experts": 4}}, "parallel.ep is 2, which does not divide the 3 ranks"),
        (1, {"memory": {"loss_chunks": 5}}, "memory.loss_chunks is 5, which does not divide the 96 tokens"),
        (2, {"parallel": {"pp": 2}}, "tiny has one matrix for embedding and output"),
        (
            8,
            {"parallel": {"pp": 8}, "variant": {"tied": False}},
            "makes 8 stages, but tiny has 4 layers; use at most 4",
        ),
        (
            4,
            {"parallel": {"pp": 4, "pp_schedule": "interleaved"}, "variant": {"tied": False}},
            "makes 8 stages, but tiny has 4 layers; use at most 2",
        ),
    ],
)
def test_a_division_that_does_not_come_out_is_refused(ranks: int, changes: dict[str, Any], sentence: str) -> None:
    job = job_of(changes)
    with pytest.raises(UserError) as caught:
        limits.check(shape_of("tiny", job.variant), 384, job, job.layout(ranks))
    assert sentence in str(caught.value)


def test_a_vocabulary_is_divided_too() -> None:
    job = job_of({"parallel": {"tp": 2}})
    with pytest.raises(UserError, match="does not divide the 385 tokens of the vocabulary"):
        limits.check(shape_of("tiny", job.variant), 385, job, job.layout(2))


@pytest.mark.parametrize("ranks", [{"tp": 2}, {"cp": 2}, {"cp": 2, "cp_method": "all-to-all"}, {"dp_shard": 2}])
def test_what_comes_out_is_not_refused(ranks: dict[str, Any]) -> None:
    job = job_of({"parallel": ranks})
    limits.check(shape_of("tiny", job.variant), 384, job, job.layout(2))


@pytest.mark.parametrize("path", sorted((ROOT / "examples/jobs").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_job_to_copy_fits_its_nodes_of_eight_gpus(path: Path) -> None:
    job = config.load(path)
    limits.check(shape_of(job.model, job.variant), 128_256, job, job.layout(8 * job.nodes))


@pytest.mark.parametrize("name", ["parallelism", "precision"])
def test_what_a_page_on_jobs_writes_can_be_written(name: str) -> None:
    page = (ROOT / f"docs/{name}.md").read_text()
    fragments = [
        yaml.safe_load("{" + text.replace("\n", " ") + "}") for text in re.findall(r"`([a-z_0-9]+: [^`]+)`", page)
    ]
    assert len(fragments) > 8
    for keys in fragments:
        sections = {"parallel": config.Parallel.model_fields, "memory": config.Memory.model_fields}
        section = next((name for name, known in sections.items() if keys.keys() <= known.keys()), None)
        assert job_of({section: keys} if section else keys)
