"""Weights go to transformers and come from there, and its models compute what ours do."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.conftest import SMALL_VARIANT
from tests.training.saved_models import (
    LARGEST_DIFFERENCE,
    LLAMA_3_1_8B,
    MODELS,
    Command,
    Make,
    difference,
    our_logits,
    their_logits,
    umask,
)
from training.config import Job
from training.config.presets import RotaryScaling, Shape, shape_of
from training.data.shards import read_index
from training.errors import UserError
from training.hugging_face.configuration import merged, with_end, write_config

if TYPE_CHECKING:
    from torch import Tensor


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_transformers_has_the_same_logits_here_and_when_it_goes_back(
    model: str, made: Make, transformers: Any, corpus_directory: Path, tmp_path: Path
) -> None:
    from training.checkpoint import weights
    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    directory, theirs = made(model)
    vocabulary = theirs.config.vocab_size
    shape = import_(directory, str(tmp_path / "ours"))
    source = weights.find(str(tmp_path / "ours"))
    ours = our_logits(source, shape, vocabulary)
    assert difference(ours, their_logits(theirs, vocabulary)) < LARGEST_DIFFERENCE

    export(source, str(corpus_directory), tmp_path / "back", "fp32", file_bytes=100_000)
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", attn_implementation="eager")
    expected = MODELS[model].back
    assert type(back) is (getattr(transformers, expected) if expected else type(theirs))
    assert difference(ours, their_logits(back, vocabulary)) < LARGEST_DIFFERENCE
    assert len(list((tmp_path / "back").glob("model-0000?-of-*.safetensors"))) > 1
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    end, ends = read_index(str(corpus_directory)).end_of_text, back.generation_config.eos_token_id
    assert tokenizer.eos_token_id == end
    assert ends == with_end(theirs.generation_config.eos_token_id, end)
    assert tokenizer.decode(tokenizer("def main():")["input_ids"]) == "def main():"


@pytest.mark.parametrize("experts", [None, 4])
def test_what_a_job_learned_is_what_transformers_gets(
    experts: int | None,
    launch: Any,
    job: dict[str, Any],
    transformers: Any,
    command: Command,
    corpus_directory: Path,
    tmp_path: Path,
) -> None:
    """From the checkpoint of two ranks; of experts the biases, which are not zero any more, as well."""
    from training.hugging_face.__main__ import one_process

    job["variant"] = SMALL_VARIANT | {"experts": experts, "sliding_window": None if experts else 9}
    launch(job, 2, "--until-step", "3").finish()
    checkpoints = job["checkpoint"]["location"]
    where = ["--checkpoint", checkpoints, "--data", str(corpus_directory), "--out", str(tmp_path / "hf")]
    command("export", *where, "--dtype", "fp32")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", attn_implementation="eager")
    assert type(theirs).__name__ == ("Ernie4_5_MoeForCausalLM" if experts else "MistralForCausalLM")

    described = Job.model_validate(job)
    shape = shape_of(described.model, described.variant)
    with one_process():
        ours = our_logits(f"{checkpoints}/step-00000003", shape, theirs.config.vocab_size)
    assert difference(ours, their_logits(theirs, theirs.config.vocab_size), least=0.3) < LARGEST_DIFFERENCE


def as_before_transformers_5(directory: Path) -> None:
    """Write `config.json` with the names that earlier versions of transformers use."""
    path = directory / "config.json"
    config = json.loads(path.read_text())
    config["torch_dtype"] = config.pop("dtype")
    rotary = config.pop("rope_parameters")
    config |= {"rope_theta": rotary.pop("rope_theta"), "rope_scaling": rotary}
    path.write_text(json.dumps(config))


def without(key: str) -> Callable[[Path], None]:
    """Return what removes a key of `config.json`."""

    def remove(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(
            json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != key})
        )

    return remove


# The name of the data type in PyTorch, and what is changed.
IMPORTED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "bf16": ("bfloat16", lambda _: None),
    "fp16, of transformers 4": ("float16", as_before_transformers_5),
    "fp32": ("float32", lambda _: None),
    "fp16 that only the weights say": ("float16", without("dtype")),
    "generation described by config.json": ("bfloat16", lambda d: (d / "generation_config.json").unlink()),
    "ends of a text in config.json only": (
        "bfloat16",
        lambda d: (d / "generation_config.json").write_text('{"temperature": 0.6, "do_sample": true}'),
    ),
}


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("case", IMPORTED)
def test_transformers_reads_what_it_wrote(
    case: str, made: Make, transformers: Any, corpus_directory: Path, tmp_path: Path
) -> None:
    """The readers of transformers return the same before an import and after an export."""
    import torch

    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    data_type, change = IMPORTED[case]
    dtype = getattr(torch, data_type)
    end, data_tokenizer = read_index(str(corpus_directory)).end_of_text, corpus_directory / "tokenizer.json"
    ends = {"eos_token_id": [7, end, 5], "pad_token_id": 9, "bos_token_id": 8}
    use = {"max_position_embeddings": 131072, "initializer_range": 0.01, "use_cache": False}
    directory, theirs = made("Llama 3.1", **ends, **use)
    theirs.generation_config.update(temperature=0.6, do_sample=True, **ends)
    theirs.to(dtype).save_pretrained(directory, max_shard_size="100KB")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(data_tokenizer),
        eos_token="<0x00>",
        extra_special_tokens=["<0x01>"],
        model_max_length=131072,
        chat_template={"default": "{{ messages[0].content }}", "tool_use": "{{ tools }}"},
    )
    tokenizer.save_pretrained(directory)
    shutil.copy(data_tokenizer, directory)
    (directory / "tokenizer.model").write_bytes(b"of SentencePiece")
    change(directory)

    import_(directory, str(tmp_path / "ours"))
    back = tmp_path / "back"
    export(str(tmp_path / "ours"), str(corpus_directory), back)
    described = {path.relative_to(directory) for path in directory.rglob("*") if "safetensors" not in path.name}
    assert described == {path.relative_to(back) for path in back.rglob("*") if "safetensors" not in path.name}
    assert Path("additional_chat_templates/tool_use.jinja") in described
    same = [path for path in described if (directory / path).is_file() and "config.json" not in path.name]
    assert all((back / path).read_bytes() == (directory / path).read_bytes() for path in same)

    before, after = (
        transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager")
        for path in (directory, back)
    )
    assert after.dtype == before.dtype == dtype
    assert {**after.config.to_dict(), "_name_or_path": ""} == {**before.config.to_dict(), "_name_or_path": ""}
    if case == "ends of a text in config.json only":
        before.generation_config.eos_token_id = [7, end, 5]
    assert after.generation_config == before.generation_config
    assert after.generation_config.eos_token_id == [7, end, 5]
    for name, tensor in before.state_dict().items():
        assert torch.equal(after.state_dict()[name], tensor)
    vocabulary = before.config.vocab_size
    assert torch.equal(their_logits(after, vocabulary), their_logits(before, vocabulary))

    before, after = (transformers.AutoTokenizer.from_pretrained(path) for path in (directory, back))
    assert set(after.chat_template) == {"default", "tool_use"}
    for what in ("chat_template", "special_tokens_map", "model_max_length", "all_special_ids", "vocab"):
        assert getattr(after, what) == getattr(before, what)
    assert after("def main():<0x01>") == before("def main():<0x01>")
    modes = {path.name: path.stat().st_mode & 0o777 for path in back.rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o666 & ~umask()}, modes


@pytest.mark.usefixtures("one_rank")
def test_weights_travel_one_tensor_at_a_time(made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a model that fills half of the memory can be read."""
    from training.hugging_face import importing
    from training.hugging_face.importing import import_

    directory, _ = made()
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def counted(tensor: Tensor, *_: Any) -> Tensor:
        nonlocal most
        copy = tensor.clone()
        alive.append(weakref.ref(copy))
        most = max(most, sum(each() is not None for each in alive))
        return copy

    tensor_of_file = importing._Files.tensor
    monkeypatch.setattr(importing._Files, "tensor", lambda self, name: counted(tensor_of_file(self, name)))
    import_(directory, str(tmp_path / "weights"))
    assert len(alive) == 30
    # The one that was written last is released when the next one is there.
    assert most <= 2


@pytest.mark.usefixtures("one_rank")
def test_the_files_have_the_type_that_was_asked_for(made: Make, corpus_directory: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    directory, _ = made("ERNIE 4.5 with experts")
    import_(directory, str(tmp_path / "ours"))
    export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "bf16", "bf16")
    types = {}
    with safe_open(tmp_path / "bf16/model.safetensors", "pt") as file:
        types = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert {kind for name, kind in types.items() if "correction_bias" not in name} == {"BF16"}
    assert {kind for name, kind in types.items() if "correction_bias" in name} == {"F32"}
    assert json.loads((tmp_path / "bf16/config.json").read_text())["dtype"] == "bfloat16"
    with pytest.raises(UserError, match="there is a model here already"):
        export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "bf16", "bf16")
    with pytest.raises(UserError, match="there is a checkpoint here already"):
        import_(directory, str(tmp_path / "ours"))


@pytest.mark.usefixtures("one_rank")
def test_weights_may_be_in_s3(made: Make, s3: str, corpus_directory: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    directory, theirs = made()
    (directory / "additional_chat_templates").mkdir()
    (directory / "additional_chat_templates/rag.jinja").write_text("{{ documents }}")
    import_(directory, f"{s3}/models/llama")
    export(f"{s3}/models/llama", str(corpus_directory), tmp_path / "back", "fp32")
    assert (tmp_path / "back/additional_chat_templates/rag.jinja").read_text() == "{{ documents }}"
    back = load_file(tmp_path / "back/model.safetensors")
    assert back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in back.items())


@pytest.mark.usefixtures("one_rank")
def test_rows_that_no_token_has_are_left_out(
    made: Make, corpus_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from training.checkpoint import weights
    from training.hugging_face.importing import import_

    vocabulary = read_index(str(corpus_directory)).vocabulary
    directory, theirs = made(vocab_size=vocabulary + 40)
    shape = import_(directory, str(tmp_path / "ours"))
    assert f"rows for {vocabulary + 40} tokens and a tokenizer of {vocabulary}" in capsys.readouterr().err
    ours = our_logits(weights.find(str(tmp_path / "ours")), shape, vocabulary)
    assert difference(ours, their_logits(theirs, vocabulary)[..., :vocabulary]) < LARGEST_DIFFERENCE


def config_json(shape: Shape, **changes: Any) -> bytes:
    return json.dumps(write_config("llama", shape, 300, 64, 0, "bfloat16") | changes).encode()


def test_an_export_writes_what_the_job_changed_and_keeps_the_rest() -> None:
    imported = config_json(LLAMA_3_1_8B, max_position_embeddings=131072, eos_token_id=[1, 2], pretraining_tp=1)
    same = merged(write_config("llama", LLAMA_3_1_8B, 300, 64, 2, "float32"), imported)
    assert same["max_position_embeddings"] == 131072
    assert same["eos_token_id"] == [1, 2]
    assert same["torch_dtype"] == "float32"
    assert same["rope_scaling"]["rope_type"] == "llama3"
    assert same["pretraining_tp"] == 1

    stretched = replace(LLAMA_3_1_8B, rope_scaling=RotaryScaling(32.0, 8192))
    changed = merged(write_config("llama", stretched, 300, 262144, 3, "float32"), imported)
    assert changed["max_position_embeddings"] == 262144
    assert changed["rope_scaling"]["factor"] == 32.0
    assert changed["eos_token_id"] == [1, 2, 3]

    newer = json.loads(imported)
    newer["rope_parameters"] = newer.pop("rope_scaling") | {"rope_theta": newer.pop("rope_theta")}
    again = merged(write_config("llama", stretched, 300, 64, 3, "float32"), json.dumps(newer).encode())
    assert "rope_parameters" not in again
    assert again["rope_scaling"]["factor"] == 32.0

    other = merged(write_config("mistral", replace(LLAMA_3_1_8B, sliding_window=9), 300, 64, 1, "float32"), imported)
    assert "pretraining_tp" not in other
    assert (other["model_type"], other["eos_token_id"]) == ("mistral", [1, 2])
