"""Each key of a job file has a decision about a resume, and the job does what it says."""

from __future__ import annotations

import json
import math
import typing
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from tests.training.checkpoints import IDENTITY, save, trained
from training import config
from training.config import Job
from training.config.on_resume import RESUME_RULES, ResumeRule
from training.config.presets import shape_of
from training.errors import UserError

if TYPE_CHECKING:
    import torch

DOCS = Path(__file__).parents[2] / "docs"

Changes = dict[str, Any]


def keys_of(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the keys of a section and of those in it."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = list(sections_in(field.annotation))
        for each in inner:
            yield from keys_of(each, f"{key}.")
        if not inner:
            yield key


def sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from sections_in(argument)


def keys(does: str) -> list[str]:
    return sorted(key for rule in RESUME_RULES if rule.does == does for key in rule.keys)


def test_every_key_of_a_job_file_has_one_decision() -> None:
    assert Counter(key for rule in RESUME_RULES for key in rule.keys) == Counter(keys_of(Job))


# Of each key that is refused: the changes of the job file, and what is said of it.
NEW_VARIANT = {"rope_scaling": {"factor": 8.0}, "experts": 4}
REFUSED: dict[str, tuple[Changes, str]] = {
    "model": ({"model": "125m", "variant": {}}, "model was tiny in the run, and is 125m"),
    **{
        f"variant.{key}": ({"variant": {key: value}}, f"variant.{key} was {was} in the run, and is {value}")
        for key, was, value in (
            ("tied", True, False),
            ("sliding_window", None, 16),
            ("experts", 4, 2),
            ("experts_per_token", 2, 1),
            ("layers", 2, 3),
            ("hidden", 32, 64),
            ("heads", 2, 4),
            ("key_value_heads", 2, 1),
            ("attention_width", None, 64),
            ("feed_forward", 64, 96),
            ("rope_theta", 10000.0, 500.0),
            ("norm_epsilon", 1e-05, 1e-06),
        )
    },
    **{
        f"variant.rope_scaling.{key}": (
            {"variant": {"rope_scaling": {"factor": 8.0, key: value}}},
            f"variant.rope_scaling.{key} was {was} in the run, and is {value}",
        )
        for key, was, value in (
            ("factor", 8.0, 4.0),
            ("original_length", 8192, 4096),
            ("low_turns", 1.0, 2.0),
            ("high_turns", 4.0, 5.0),
        )
    },
    "data.train": (
        {"data": {"train": "SHORT"}},
        r"data.train was CORPUS (digest \w{12}, share 1) in the run, and is SHORT (digest \w{12}, share 1)",
    ),
    "data.blend": (
        {"data": {"blend": {"SHORT": 0.25}}},
        r"data.train was CORPUS (digest \w{12}, share 1) in the run, and is CORPUS (digest \w{12}, share 0.75); "
        r"data.blend was empty in the run, and is SHORT (digest \w{12}, share 0.25)",
    ),
    "data.sequence_length": (
        {"data": {"sequence_length": 64}},
        "data.sequence_length was 32 in the run, and is 64",
    ),
    "data.shuffle_shards": ({"data": {"shuffle_shards": 2}}, "data.shuffle_shards was 64 in the run, and is 2"),
    "evaluation.shards": ({"evaluation": {"shards": 1}}, "evaluation.shards was 0 in the run, and is 1"),
    "seed": ({"seed": 7}, "seed was 0 in the run, and is 7"),
    "optimizer.name": ({"optimizer": {"name": "muon"}}, "optimizer.name was adamw in the run, and is muon"),
}

TRACKERS = {
    "mlflow": {"tracking_uri": "https://a.example.com", "experiment": "a", "secret": "a"},
    "wandb": {"project": "a", "entity": "a", "mode": "offline", "base_url": "https://a.example.com", "secret": "a"},
    "comet": {"project": "a", "workspace": "a", "mode": "offline", "base_url": "https://a.example.com", "secret": "a"},
}
# Of each key that is used: another value, or the changes of the job file that another value needs.
USED: dict[str, Any] = {
    **{"name": "other", "nodes": 2, "image": "own", "team": "research", "precision": "fp16", "clip": 0.5, "steps": 99},
    **{"linear": "transformer-engine", "compile": "aot_eager", "device": "cpu"},
    **{"data.mask_documents": True, "data.cache": "/cache", "data.cache_gib": 2.0},
    **{f"parallel.{key}": 2 for key in ("dp_replicate", "dp_shard", "tp", "cp", "pp", "ep")},
    **{"parallel.cp_method": "all-to-all", "parallel.pp_schedule": "interleaved"},
    "float8.recipe": {"precision": "bf16", "float8": {"recipe": "rowwise"}},
    "float8.all_gather": {"precision": "bf16", "float8": {"recipe": "tensorwise", "all_gather": True}},
    "float8.keep_first_and_last": True,
    **{"memory.activation_checkpointing": "full", "memory.checkpoint_every": 2, "memory.loss_chunks": 4},
    **{"memory.reshard_after_forward": False, "memory.gradient_accumulation": "unsharded", "memory.offload": True},
    **{"batch.global": 16, "batch.micro": 4},
    **{"optimizer.learning_rate": 0.1, "optimizer.betas": (0.5, 0.6), "optimizer.epsilon": 1e-6},
    **{"optimizer.weight_decay": 0.3, "optimizer.momentum": 0.5, "optimizer.state": "bf16"},
    **{"schedule.warmup_steps": 2, "schedule.minimum_ratio": 0.5, "schedule.shape": "wsd"},
    "schedule.decay_steps": {"schedule": {"shape": "wsd", "decay_steps": 3}},
    **{"evaluation.every": 7, "evaluation.samples": 8},
    **{"instability.skip_limit": 3, "instability.action": "rewind", "instability.rewinds": 5},
    **{"instability.spike_sigma": 6.0, "instability.spike_window": 64},
    **{"hang_detection.action": "none", "hang_detection.step_factor": 4.0, "hang_detection.least_seconds": 9.0},
    **{"hang_detection.meeting_seconds": 99.0, "hang_detection.other_seconds": 99.0},
    **{"hang_detection.collective_timeout_seconds": 99},
    "replica_check.every": {"parallel": {"dp_replicate": 2}, "replica_check": {"every": 5}},
    **{"checkpoint.every": 7, "checkpoint.interruptions_per_1000_node_days": 9.0, "checkpoint.keep": 5},
    **{"checkpoint.async": False, "checkpoint.failures": 5, "checkpoint.failure_minutes": 9.0},
    "checkpoint.local_disk": {"checkpoint": {"memory_every": 2, "local_disk": True}},
    **{"checkpoint.keep_every": 8, "checkpoint.memory_every": 2, "checkpoint.location": "/elsewhere"},
    **{"life_cycle.restarts": 1, "life_cycle.process_restarts": 1, "life_cycle.keep_hours": 1},
    **{f"trackers.{name}.{key}": {"trackers": {name: values}} for name, values in TRACKERS.items() for key in values},
}


def test_every_key_that_is_used_or_refused_has_a_case() -> None:
    assert (sorted(REFUSED), sorted(USED)) == (keys("refused"), keys("used"))


@pytest.fixture
def identity(corpus_directory: Path, variant: Changes, tmp_path: Path) -> Any:
    """Return a function that returns the identity of the job with some changes, as a checkpoint has it."""
    from training.checkpoint.identity import identity_of
    from training.data.sources import open_sources

    short = tmp_path / "short"
    short.mkdir()
    for file in corpus_directory.iterdir():
        (short / file.name).symlink_to(file)
    index = json.loads((short / "index.json").read_text())
    (short / "index.json").unlink()
    (short / "index.json").write_text(json.dumps(index | {"shards": index["shards"][:-1]}))
    (tmp_path / "moved").symlink_to(corpus_directory)
    places = {"SHORT": str(short), "CORPUS": str(corpus_directory), "MOVED": str(tmp_path / "moved")}

    @cache
    def found(changes: str) -> Any:
        base = {"train": "CORPUS", "sequence_length": 32}
        document: Changes = {"name": "x", "model": "tiny", "variant": variant | NEW_VARIANT, "data": base, "seed": 0}
        document |= {"batch": {"global": 8, "micro": 2}, "precision": "fp32", "steps": 16, "checkpoint": {"every": 4}}
        for key, value in json.loads(changes).items():
            is_section = isinstance(value, dict) and isinstance(document.get(key), dict) and value
            document[key] = {**document[key], **value} if is_section else value
        text = json.dumps(document)
        for name, place in places.items():
            text = text.replace(name, place)
        job = Job.model_validate_json(text)
        data, shape = open_sources(job), shape_of(job.model, job.variant)
        whole = identity_of(job, shape, data.index.vocabulary, data.index.tokenizer.sha256, data.identity)
        return json.loads(json.dumps(whole))

    def of(changes: Changes) -> Any:
        return found(json.dumps(changes))

    of.places = places  # type: ignore[attr-defined]
    return of


@pytest.mark.parametrize("key", REFUSED)
def test_a_refused_key_is_named_with_both_values_and_what_loses_nothing(key: str, identity: Any) -> None:
    import re

    from training.checkpoint import Progress
    from training.checkpoint.state import progress_in

    changes, said = REFUSED[key]
    pattern = said.replace("(", r"\(").replace(")", r"\)")
    for name, place in identity.places.items():
        pattern = pattern.replace(name, re.escape(place))
    run = Progress(4, 32, 2.0).as_entry(identity({}))
    with pytest.raises(UserError) as refused:
        progress_in(run, identity(changes), "/there/step-00000004")
    remedy = "Set it back, or launch the job as a new run with another name and checkpoint.location"
    is_model = key.startswith(("model", "variant"))
    weights = ". With `checkpoint.start_from: /there/step-00000004`, it starts from these weights"
    expected = f"/there/step-00000004 does not fit the job file: {pattern}. {remedy}{'' if is_model else weights}"
    assert re.fullmatch(expected, str(refused.value)), refused.value


@pytest.mark.parametrize("key", USED)
def test_a_used_key_refuses_no_checkpoint(key: str, identity: Any) -> None:
    from training.checkpoint.identity import differences

    value = USED[key]
    section, _, inner = key.partition(".")
    changes = value if isinstance(value, dict) else {section: {inner: value} if inner else value}
    assert differences(identity({}), identity(changes)) == []


def test_the_same_tokens_at_another_location_and_the_same_sizes_by_another_name_fit(identity: Any) -> None:
    from training.checkpoint.identity import differences

    assert differences(identity({}), identity({"data": {"train": "MOVED"}})) == []
    preset = {"layers": 2, "hidden": 32, "heads": 2, "key_value_heads": 2, "feed_forward": 64, "tied": True}
    other = {"model": "125m", "variant": {**NEW_VARIANT, **preset, "rope_theta": 10_000.0}}
    assert differences(identity({}), identity(other)) == []


def test_a_checkpoint_of_another_tokenizer_or_without_an_identity_is_refused(identity: Any) -> None:
    from training.checkpoint.identity import differences

    now = identity({})
    other = now | {"tokenizer": "b" * 64}
    assert [each.key for each in differences(other, now)] == ["the tokenizer of data.train"]
    assert [each.key for each in differences(now | {"model": now["model"] | {"vocabulary": 7}}, now)] == [
        "the vocabulary of data.train"
    ]
    assert "not recorded" in str(differences({}, now)[0])
    imported = {key: now[key] for key in ("model", "tokenizer", "sequence_length")}
    assert [each.key for each in differences(imported, now)] == ["data.train", "seed"]
    earlier = {key: now[key] for key in ("model", "tokenizer", "data", "sequence_length", "seed")}
    assert differences(earlier, now) == [], "a checkpoint of a version that wrote fewer values"


@pytest.mark.usefixtures("one_rank")
def test_a_checkpoint_has_no_setting_of_the_job_but_its_identity(tmp_path: Path) -> None:
    """What a checkpoint does not have cannot take the place of a key that is used."""
    from training.checkpoint import Progress, step_location
    from training.checkpoint.stores import reader

    save(str(tmp_path), trained(seed=0, steps=1), Progress(1, 8, 2.0))
    names = reader(step_location(str(tmp_path), 1)).read_metadata().state_dict_metadata
    found = {name.rpartition(".")[2] if name.startswith("optimizer.") else name.partition(".")[0] for name in names}
    assert found == {"model", "run", "step", "exp_avg", "exp_avg_sq"}
    of_run = {name for name in names if name.startswith("run.")}
    assert of_run == {f"run.{each}" for each in ("step", "samples", "loss", "loss_scale", "recent", "identity")}


OTHER = {"learning_rate": 0.02, "betas": (0.5, 0.6), "epsilon": 1e-6, "weight_decay": 0.3, "momentum": 0.5}


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_settings_of_an_optimizer_are_those_of_the_job_file(name: str, tmp_path: Path) -> None:
    from training import checkpoint
    from training.checkpoint import Progress

    before = config.Optimizer.model_validate({"name": name})
    now = config.Optimizer.model_validate({"name": name, **OTHER})
    save(str(tmp_path), trained(0, 3, before), Progress(3, 24, 2.0))
    fresh, loaded = trained(1, 0, now)[1], trained(1, 0, now)
    checkpoint.load(str(tmp_path), 3, *loaded, IDENTITY)

    def settings(optimizer: torch.optim.Optimizer) -> list[Changes]:
        return [{key: value for key, value in each.items() if key != "params"} for each in optimizer.param_groups]

    assert settings(loaded[1]) == settings(fresh)
    found = settings(loaded[1])[0]
    assert (found["betas"], found["eps"], found["weight_decay"]) == ((0.5, 0.6), 1e-6, 0.3)
    assert getattr(loaded[1], "_momentum", 0.5) == 0.5, "Muon's own setting is of no group"
    assert hasattr(loaded[1], "_momentum") is (name == "muon")
    assert loaded[1].state, "the moments are those of the checkpoint"


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("before", "now"), [("fp32", "bf16"), ("bf16", "fp32")])
def test_moments_are_converted(before: str, now: str, tmp_path: Path) -> None:
    import torch

    from training import checkpoint
    from training.checkpoint import Progress

    settings = [config.Optimizer.model_validate({"state": each}) for each in (before, now)]
    saved, loaded = trained(0, 3, settings[0]), trained(1, 0, settings[1])
    save(str(tmp_path), saved, Progress(3, 24, 2.0))
    checkpoint.load(str(tmp_path), 3, *loaded, IDENTITY)
    for was, has in zip(saved[1].state.values(), loaded[1].state.values(), strict=True):
        assert has["exp_avg"].dtype == (torch.bfloat16 if now == "bf16" else torch.float32)
        torch.testing.assert_close(has["exp_avg"].float(), was["exp_avg"].float(), rtol=2**-8, atol=0)


@pytest.mark.usefixtures("one_rank")
def test_another_optimizer_is_refused_before_its_state_is_looked_for(tmp_path: Path) -> None:
    from training import checkpoint
    from training.checkpoint import Progress, state_of

    adamw, muon = IDENTITY | {"optimizer": "adamw"}, IDENTITY | {"optimizer": "muon"}
    checkpoint.save(str(tmp_path), 3, state_of(*trained(0, 3), Progress(3, 24, 2.0), adamw))
    with pytest.raises(UserError, match=r"optimizer\.name was adamw in the run, and is muon\. Set it back, or launch"):
        checkpoint.resume(str(tmp_path), None, *trained(1, 0, config.Optimizer(name="muon")), muon)


@pytest.mark.parametrize(
    ("before", "found", "now", "begins_with"),
    [
        ("fp16", 256.0, "fp16", 256.0),
        ("fp16", 1.0, "fp16", 1.0),
        ("bf16", 1.0, "fp16", 65536.0),
        ("fp16", 256.0, "bf16", 1.0),
        ("fp32", 1.0, "bf16", 1.0),
    ],
)
def test_another_precision_begins_with_its_own_loss_scale(
    before: str, found: float, now: str, begins_with: float
) -> None:
    from training.checkpoint import Progress
    from training.checkpoint.state import progress_in
    from training.precision.loss_scale import initial_scale

    saved, wanted = ({"first_loss_scale": initial_scale(each)} for each in (before, now))
    run = Progress(4, 32, 2.0, loss_scale=found).as_entry(saved)
    assert progress_in(run, wanted, "x").loss_scale == begins_with


@pytest.mark.parametrize("window", [8, 32])
def test_the_rule_for_spikes_has_the_window_of_the_job_file(window: int) -> None:
    import torch

    from training.optim.step_guard import StepGuard

    recent = tuple((float(step), 1.0) for step in range(16))
    guard = StepGuard(config.Instability(spike_sigma=6, spike_window=window), torch.device("cpu"), recent)
    assert guard.recent() == recent[-min(window, 16) :]
    assert StepGuard(config.Instability(), torch.device("cpu"), recent).recent() == ()


def test_a_run_goes_on_with_the_keys_that_are_used_and_names_the_one_that_is_kept(
    launch: Any, job: Changes, tmp_path: Path
) -> None:
    from training.optim.optimizer import learning_rate

    launch(job, 1, "--until-step", "4").finish()
    schedule = {"shape": "wsd", "warmup_steps": 1, "decay_steps": 4, "minimum_ratio": 0.5}
    changed = job | {
        "steps": 8,
        "batch": {"global": 4, "micro": 4},
        "precision": "bf16",
        "clip": 0.01,
        "optimizer": {"learning_rate": 0.01, "weight_decay": 0.5},
        "schedule": schedule,
        "memory": {"loss_chunks": 2, "activation_checkpointing": "full"},
        "checkpoint": job["checkpoint"] | {"every": 3, "keep": 5, "start_from": str(tmp_path / "weights")},
    }
    run = launch(changed, 1)
    output = run.finish()
    own = "is not read, because the run resumes from its own checkpoint of step 4"
    assert f"checkpoint.start_from: {tmp_path}/weights {own}" in output
    start, steps = run.events("start")[-1], run.events("step")[4:]
    assert (start["resumed_from"], start["precision"], start["tokens_per_step"]) == (4, "bf16", 4 * 32)
    assert [step["tokens"] for step in steps] == [32 * (4 * 8 + 4 * more) for more in (1, 2, 3, 4)]
    wanted = [learning_rate(step, 8, 0.01, config.Schedule.model_validate(schedule)) for step in (5, 6, 7, 8)]
    assert [step["learning_rate"] for step in steps] == wanted
    assert [event["step"] for event in run.events("checkpoint")] == [4, 6, 8]
    assert all(math.isfinite(step["loss"]) for step in steps)


def row(rule: ResumeRule) -> str:
    """Return the row of the table in the documentation."""
    sections: dict[str, list[str]] = {}
    for key in rule.keys:
        section, _, inner = key.partition(".")
        sections.setdefault(section, []).append(inner)
    every = Counter(key.partition(".")[0] for each in RESUME_RULES for key in each.keys)
    shown = []
    for section, names in sections.items():
        is_whole = len(names) == every[section]
        shown += [f"`{section}`"] if is_whole else [f"`{section}.{each}`" for each in names]
    return f"| {', '.join(shown)} | {rule.does} | {rule.why} |"


def test_the_documentation_has_the_table() -> None:
    rows = [line for line in (DOCS / "checkpoints.md").read_text().splitlines() if line.startswith("| `")]
    assert [row(rule) for rule in RESUME_RULES] == [each for each in rows if each.count("|") == 4]
