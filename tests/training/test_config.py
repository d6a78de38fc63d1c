"""A wrong job file is refused before anything starts, with every problem and what would be right."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import ValidationError

from tests.training.torchrun_server import TorchrunServer
from training.config import Job, WrongJobFile, load
from training.config import booleans as ours
from training.config.presets import PRESETS
from trainway.spec import booleans as theirs

RIGHT: dict[str, Any] = {
    "name": "llama-8b",
    "nodes": 4,
    "model": "8b",
    "data": {"train": "fsx:/corpus/web", "sequence_length": 8192},
    "parallel": {"dp_shard": 8, "dp_replicate": -1, "tp": 1, "cp": 1, "pp": 1},
    "precision": "bf16",
    "batch": {"global": 1024, "micro": 1},
    "steps": 100_000,
    "checkpoint": {"every": 500, "keep": 3},
    "team": "research",
}


def test_the_design_s_job_file_is_right_and_fits_32_gpus() -> None:
    job = Job.model_validate(RIGHT)
    assert job.checkpoint_location == "s3:/checkpoints/llama-8b"
    assert job.tokens_per_step == 1024 * 8192
    layout = job.layout(32)
    assert (layout.dp_replicate, layout.dp_shard, layout.accumulation_steps) == (4, 8, 32)


def test_a_chosen_interval_can_be_used_with_keep_every_and_memory_every() -> None:
    checkpoint = {"every": "auto", "keep_every": 1234, "memory_every": 600}
    job = Job.model_validate(RIGHT | {"checkpoint": checkpoint})
    assert job.checkpoint.every == "auto"
    assert job.checkpoint.interruptions_per_1000_node_days == 3.79


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"nodes": True}, "int_type"), ({"clip": False}, "float_type"), ({"data": {"blend": {"/b": True}}}, "float_type")],
)
def test_a_boolean_in_place_of_a_number_is_refused(change: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(RIGHT | change)
    assert kind in {problem["type"] for problem in caught.value.errors()}


def test_both_files_refuse_booleans_by_the_same_code() -> None:
    job, platform = (inspect.getsource(each).partition("\n\nfrom")[2] for each in (ours, theirs))
    assert job and job == platform


NEITHER = "it is neither auto nor a whole number of 1 or more"


@pytest.mark.parametrize(
    ("change", "sentence", "remedy"),
    [
        ({"parallel": {"tp": 0}}, "a degree of 0 is impossible", "1 or more, or -1"),
        ({"parallel": {"tp": -1, "cp": -1, "dp_shard": 1}}, "cp and tp are both -1", "all degrees but one"),
        (
            {"checkpoint": {"every": 300, "keep_every": 1000}},
            "checkpoint.every is 300, so that most multiples of 1000 have no checkpoint",
            "a multiple of 300, such as 1200",
        ),
        ({"checkpoint": {"every": 0}}, NEITHER, "auto, or a number such as 500"),
        ({"checkpoint": {"every": "often"}}, NEITHER, "auto, or a number such as 500"),
        (
            {"checkpoint": {"every": 50, "memory_every": 50}},
            "storage gets a checkpoint every 50 steps already",
            "fewer than 50, or leave it out",
        ),
        (
            {"checkpoint": {"local_disk": True}},
            "checkpoint.memory_every is missing, which says how often the nodes keep a checkpoint",
            "add memory_every, such as memory_every: 50, or leave it out",
        ),
        (
            {"parallel": {"ep": 2}, "memory": {"activation_checkpointing": "selective"}},
            "activation_checkpointing is selective, but parallel.ep is 2",
            "full or none",
        ),
        (
            {"parallel": {"tp": 2}, "float8": {"recipe": "mxfp8"}},
            "recipe is mxfp8, but parallel.tp is 2",
            "use tensorwise or rowwise, or set parallel.tp to 1",
        ),
        (
            {"parallel": {"pp": 4, "pp_schedule": "zero-bubble"}, "float8": {"recipe": "tensorwise"}},
            "recipe is tensorwise, but pp_schedule zero-bubble",
            "interleaved, or recipe none",
        ),
        (
            {"parallel": {"tp": 2}, "linear": "transformer-engine"},
            "linear is transformer-engine, but parallel.tp is 2",
            "set parallel.tp to 1, or linear to torch",
        ),
        (
            {"parallel": {"pp": 2, "pp_schedule": "zero-bubble"}, "linear": "transformer-engine"},
            "linear is transformer-engine, but pp_schedule is zero-bubble",
            "use interleaved",
        ),
        (
            {"float8": {"recipe": "rowwise"}, "linear": "transformer-engine"},
            "float8.recipe is rowwise, which it does not have",
            "use tensorwise",
        ),
        (
            {"float8": {"recipe": "tensorwise", "all_gather": True}, "linear": "transformer-engine"},
            "float8.all_gather is true, and it takes weights in bf16",
            "leave all_gather out",
        ),
        (
            {"float8": {"recipe": "tensorwise", "all_gather": True}, "memory": {"offload": True}},
            "offload is true, but float8.all_gather is too",
            "leave float8.all_gather out, or offload",
        ),
        (
            {"memory": {"offload": True}, "optimizer": {"name": "muon"}},
            "name is muon, but memory.offload is true",
            "use adamw",
        ),
        (
            {"optimizer": {"name": "adamw-8bit", "state": "bf16"}},
            "state is bf16, but optimizer.name is adamw-8bit",
            "leave state out",
        ),
        ({"precision": "fp32", "float8": {"recipe": "rowwise"}}, "but precision is fp32", "precision to bf16"),
        (
            {"float8": {"recipe": "rowwise", "all_gather": True}},
            "only tensorwise weights can be",
            "recipe to tensorwise",
        ),
        (
            {"parallel": {"pp": 4, "pp_schedule": "zero-bubble"}, "compile": "inductor"},
            "compile is inductor, but pp_schedule zero-bubble",
            "interleaved, or compile none",
        ),
        (
            {"variant": {"rope_scaling": {"factor": 8, "low_turns": 4}}},
            "low_turns 4.0 is not below high_turns 4.0",
            "use 1 and 4",
        ),
        ({"parallel": {"dp_shard": 0}}, "a degree of 0 is impossible", "1 or more, or -1"),
        ({"parallel": {"dp_shard": -1, "dp_replicate": -1}}, "neither can be derived", "all degrees but one a number"),
        ({"batch": {"global": 10, "micro": 4}}, "10 samples cannot be cut into micro-batches of 4", "such as 12"),
        ({"schedule": {"warmup_steps": 100_000}}, "does not end within a job of 100000", "at most 99999"),
        ({"data": {"train": "/a", "blend": {"/a": 0.2}}}, "'/a' is data.train", "leave it out of data.blend"),
        ({"data": {"train": "/a", "blend": {"/b": 0.6, "/c": 0.4}}}, "which leaves nothing", "less than 1"),
        ({"schedule": {"decay_steps": 5}}, "a cosine has no decay_steps", "set schedule.shape to wsd"),
        (
            {"schedule": {"shape": "wsd", "warmup_steps": 60_000, "decay_steps": 50_000}},
            "do not fit into a job of 100000",
            "decay_steps of at most 40000",
        ),
        ({"data": {"train": "gs://corpus"}}, "'gs://corpus' is not a location", "fsx:/path"),
        ({"data": {"train": "s3:corpus"}}, "'s3:corpus' is not a location", "fsx:/path"),
        ({"data": {"train": "s3://bucket"}}, "'s3://bucket' is not a location", "s3://bucket/key"),
    ],
)
def test_a_rule_of_ours_says_why_and_what_would_be_right(change: dict[str, Any], sentence: str, remedy: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(RIGHT | change)
    (problem,) = caught.value.errors()
    assert sentence in problem["msg"]
    assert remedy in problem["ctx"]["remedy"]


@pytest.mark.parametrize(
    ("parallel", "world_size", "sentence"),
    [
        ({"dp_shard": 8, "dp_replicate": -1}, 12, "dp_shard is 8, which does not divide the 12 ranks"),
        ({"tp": 8, "pp": 3}, 64, "parallel.pp x tp is 3 x 8 = 24, which does not divide the 64 ranks"),
        ({"pp": 3, "dp_shard": -1}, 3, "makes 1024 micro-batches a rank, which parallel.pp 3 does not divide"),
        ({"dp_shard": 4, "dp_replicate": 2}, 16, "2 x 4 = 8, but the job has 16 ranks"),
        ({"dp_shard": -1}, 3, "one pass of 3 data-parallel ranks with batch.micro 1 takes 3 samples"),
    ],
)
def test_a_layout_that_does_not_fit_says_which_number(parallel: dict[str, int], world_size: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Job.model_validate(RIGHT | {"parallel": parallel}).layout(world_size)


def test_an_evaluation_keeps_every_stage_of_a_pipeline_at_work() -> None:
    job = RIGHT | {"parallel": {"pp": 4}, "evaluation": {"shards": 1, "samples": 48}}
    assert Job.model_validate(job).layout(8).evaluation_passes == 24
    job["evaluation"] = {"shards": 1, "samples": 36}
    sentence = "makes 18 micro-batches a rank, which parallel.pp 4 does not divide; make evaluation.samples .* 8"
    with pytest.raises(ValueError, match=sentence):
        Job.model_validate(job).layout(8)


def test_a_wrong_file_gives_all_problems(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: Bad_Name\nmodel: 9b\ndata: {train: fsx:/a, seqence: 1}\nparallel: {cp: 0}\nbatch: {micro: 0}\n"
    )
    with pytest.raises(WrongJobFile) as caught:
        load(path)
    problems = str(caught.value).splitlines()
    for key in ("name", "model", "data.seqence", "parallel.cp", "batch.global", "batch.micro", "steps"):
        assert sum(line.startswith(f"{key}: ") for line in problems) == 1, key


@pytest.mark.parametrize("text", ["", "- a list\n", "name: [unclosed\n", None])
def test_a_file_that_is_no_mapping_is_wrong(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(WrongJobFile):
        load(path)


def test_a_rate_in_scientific_notation_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(RIGHT) + "optimizer: {learning_rate: 3e-4}\n")  # which YAML 1.1 calls a string
    assert load(path).optimizer.learning_rate == 3e-4


def test_the_presets_are_the_models_of_the_job_file() -> None:
    assert set(get_args(Job.model_fields["model"].annotation)) == set(PRESETS)


def test_the_job_file_has_a_schema_in_which_every_key_is_described() -> None:
    schema = Job.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        for name, key in section["properties"].items():
            assert "description" in key or "$ref" in key, name


def test_the_bundled_job_fits_two_processes_and_a_p5_node() -> None:
    job = load(Path(__file__).parents[2] / "examples/jobs/tiny.yaml")
    assert job.layout(2)
    assert job.layout(8), "one P5 node has eight GPUs"


def test_reading_a_job_file_imports_neither_torch_nor_boto3() -> None:
    program = "import sys, training.config; print({'torch', 'boto3', 'trainway'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"


def test_the_job_does_not_import_boto3_to_start(torchrun: TorchrunServer) -> None:
    assert "torch" in torchrun.modules_of_a_job
    assert not {"boto3", "s3torchconnector"} & torchrun.modules_of_a_job
