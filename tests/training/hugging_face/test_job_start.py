"""A job starts from imported weights only if they belong to its model and its tokenizer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.training.saved_models import (
    LLAMA_3_1_8B,
    Command,
    Make,
    describe,
    umask,
)
from training.config import Job, Variant
from training.config.presets import PRESETS, RotaryScaling, Shape, shape_of
from training.data.shards import read_index
from training.errors import UserError
from training.hugging_face.configuration import job_section, read_config, write_config
from training.hugging_face.families import ModelFamily


def test_a_job_starts_from_imported_weights_and_continues_from_its_own(
    launch: Any,
    job: dict[str, Any],
    made: Make,
    command: Command,
    transformers: Any,
    corpus_directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch

    from training.data.batches import read
    from training.data.sources import open_sources
    from training.model.loss import cross_entropy

    directory, theirs = made("Llama 3.1", max_position_embeddings=131072, pad_token_id=9, bos_token_id=8)
    describe(directory)
    command("import", "--from", str(directory), "--out", str(tmp_path / "weights"))
    section = yaml.safe_load(capsys.readouterr().out)
    assert section["checkpoint"] == {"start_from": str(tmp_path / "weights")}
    section["checkpoint"] |= job["checkpoint"]
    run = launch(job | section | {"parallel": {"pp": 2}}, 2, "--until-step", "2")
    run.finish()

    text = torch.from_numpy(read(open_sources(Job.model_validate(job)).samples, np.arange(8)))
    with torch.no_grad():
        expected = cross_entropy(theirs(text[:, :-1]).logits, text[:, 1:]).item()
    first, second = run.events("step")
    assert first["loss"] == pytest.approx(expected, abs=2e-6)
    assert abs(second["loss"] - expected) > 1e-3

    shutil.rmtree(tmp_path / "weights")
    again = launch(job | section, 1, "--until-step", "3", name="again")
    again.finish()
    assert [event["step"] for event in again.events("step")] == [3], "its own checkpoint needs the start no more"

    data, out = str(corpus_directory), tmp_path / "hf"
    command("export", "--checkpoint", job["checkpoint"]["location"], "--data", data, "--out", str(out))
    before, after = (json.loads((path / "config.json").read_text()) for path in (directory, out))
    end = read_index(data).end_of_text
    assert after.pop("eos_token_id") == [7, 5, end]
    kept = {key: value for key, value in before.items() if key in after}
    assert {key: after[key] for key in kept} == kept
    known = {"rope_parameters", "max_position_embeddings", "pad_token_id", "bos_token_id", "made_by", "dtype"}
    assert known <= kept.keys()
    generation = json.loads((out / "generation_config.json").read_text())
    assert (generation["temperature"], generation["eos_token_id"]) == (0.6, [7, 5, end])
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], tokenize=False) == "<user>Hello"
    back = transformers.AutoModelForCausalLM.from_pretrained(out)
    assert back.config.max_position_embeddings == 131072
    assert back.generation_config.temperature == 0.6
    modes = {path.name: path.stat().st_mode & 0o777 for path in out.iterdir()}
    assert set(modes.values()) == {0o666 & ~umask()}, modes


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": {"hidden": 32, "vocabulary": 9}}, "hidden is 64 there and 32 here; vocabulary is 384 there and 9"),
        ({"tokenizer": "0" * 64}, "learned the tokens of another tokenizer"),
    ],
)
@pytest.mark.usefixtures("one_rank")
def test_a_job_does_not_start_from_weights_of_another_model_or_tokenizer(
    change: dict[str, Any], sentence: str, made: Make, tmp_path: Path
) -> None:
    from training.checkpoint import weights
    from training.hugging_face.importing import import_
    from training.model.decoder import Decoder

    directory, _ = made()
    shape = import_(directory, str(tmp_path / "weights"))
    _, identity = weights.describe(weights.find(str(tmp_path / "weights")))
    model = Decoder(shape, identity["model"]["vocabulary"])
    weights.start(str(tmp_path / "weights"), model, identity)
    other = identity | change | {"model": identity["model"] | change.get("model", {})}
    with pytest.raises(UserError, match=sentence):
        weights.start(str(tmp_path / "weights"), model, other)


@pytest.mark.usefixtures("one_rank")
def test_a_location_without_the_checkpoint_says_what_is_there(made: Make, tmp_path: Path) -> None:
    from training.checkpoint import weights
    from training.hugging_face.importing import import_

    directory, _ = made()
    import_(directory, str(tmp_path / "weights"))
    assert weights.find(f"{tmp_path}/weights/step-00000000") == weights.find(str(tmp_path / "weights"))
    with pytest.raises(UserError, match="weights has those of the steps 0"):
        weights.find(f"{tmp_path}/weights/step-00000007")
    with pytest.raises(UserError, match="no complete checkpoint here"):
        weights.find(str(tmp_path))


@pytest.mark.parametrize(
    ("shape", "model", "changed"),
    [
        (PRESETS["70b"], "70b", set()),
        (LLAMA_3_1_8B, "8b", {"rope_scaling"}),
        (replace(PRESETS["1b"], rope_scaling=RotaryScaling(32.0, 8192)), "1b", {"rope_scaling"}),
        (replace(PRESETS["8x1b"], experts=16, experts_per_token=4), "8x1b", {"experts", "experts_per_token"}),
        # Mistral NeMo, whose heads are wider than its residual stream.
        (
            replace(PRESETS["8b"], layers=40, hidden=5120, attention_width=4096, rope_theta=1e6),
            "8b",
            {"layers", "hidden", "attention_width", "rope_theta"},
        ),
    ],
)
def test_an_import_says_what_to_write_in_the_job_file(
    shape: Shape, model: str, changed: set[str], tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    family: ModelFamily = "mixtral" if shape.experts else "llama"
    path.write_text(json.dumps(write_config(family, shape, 300, 64, 0, "bfloat16")))
    assert read_config(path) == (family, shape, 300, 64)
    section = job_section(shape)
    assert section["model"] == model
    assert set(section["variant"]) == changed
    assert shape_of(section["model"], Variant.model_validate(section["variant"])) == shape


def test_a_job_does_not_start_from_weights_that_are_not_finite(
    launch: Any, job: dict[str, Any], made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file, save_file

    from training.hugging_face import importing
    from training.hugging_face.__main__ import one_process
    from training.hugging_face.importing import import_

    monkeypatch.setattr(importing, "check_finite", lambda *_: None)
    directory, _ = made()
    file = next(directory.glob("*.safetensors"))
    tensors = load_file(file)
    next(iter(tensors.values())).view(-1)[0] = float("inf")
    save_file(tensors, file, {"format": "pt"})
    with one_process():
        section = job_section(import_(directory, str(tmp_path / "weights")))
    section["checkpoint"] = job["checkpoint"] | {"start_from": str(tmp_path / "weights")}
    run = launch(job | section, 2, "--until-step", "1")
    output, _ = run.process.communicate(timeout=1800)
    assert run.process.returncode != 0
    assert f"checkpoint.start_from: {tmp_path}/weights" in output
    assert "has weights that are not finite; name other weights" in output
    assert not run.events("step")
