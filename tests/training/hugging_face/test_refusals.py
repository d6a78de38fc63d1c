"""What cannot be imported or exported is refused with one sentence, and leaves no files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.training.saved_models import (
    UP,
    Command,
    Make,
    spoil_config,
    spoil_tensors,
)
from training.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


def add_bias(tensors: dict[str, Tensor]) -> None:
    import torch

    tensors["model.layers.0.mlp.up_proj.bias"] = torch.ones(96)


def quantise(tensors: dict[str, Tensor]) -> None:
    import torch

    tensors[UP] = tensors[UP].to(torch.int8)


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda d: (d / "config.json").unlink(), r"config\.json: cannot be read"),
    "another architecture": (lambda d: spoil_config(d, model_type="qwen3"), r"model_type: .*\(found 'qwen3'\)"),
    "another activation": (lambda d: spoil_config(d, hidden_act="gelu"), r"hidden_act: .*\(found 'gelu'\)"),
    "biases": (lambda d: spoil_config(d, attention_bias=True), r"attention_bias: .*\(found True\)"),
    "another scaling": (
        lambda d: spoil_config(d, rope_parameters={"rope_type": "yarn", "factor": 4.0}),
        "rope_type is 'yarn'; supported are default and llama3",
    ),
    "a shard is missing": (
        lambda d: (d / "model-00002-of-00006.safetensors").unlink(),
        r"model-00002-of-00006\.safetensors: is in model\.safetensors\.index\.json, but does not exist",
    ),
    "a shard is cut off": (
        lambda d: (d / "model-00002-of-00006.safetensors").write_bytes(b"\x10\x00\x00"),
        r"model-00002-of-00006\.safetensors: is not a complete safetensors file",
    ),
    "no weights": (
        lambda d: (d / "model.safetensors.index.json").unlink(),
        r"has neither model\.safetensors\.index\.json nor model\.safetensors",
    ),
    "a wrong shape": (
        lambda d: spoil_config(d, intermediate_size=80),
        r"safetensors: model\.layers\.0\.mlp\.gate_proj\.weight has the shape \[96, 64\]; config\.json requires \[80",
    ),
    "a tensor is missing": (
        lambda d: spoil_tensors(d, lambda tensors: tensors.pop(UP)),
        r"no file has the tensor model\.layers\.0\.mlp\.up_proj\.weight",
    ),
    "a tensor too many": (
        lambda d: spoil_tensors(d, add_bias),
        r"has the tensor model\.layers\.0\.mlp\.up_proj\.bias, which models of llama here do not have",
    ),
    "quantised": (
        lambda d: spoil_tensors(d, quantise),
        r"up_proj\.weight is of I8; supported are BF16, F16, F32, F64",
    ),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), r"tokenizer\.json: is not there, and the data has"),
    "too large a tokenizer": (
        lambda d: spoil_config(d, vocab_size=100),
        r"tokenizer\.json has 384 tokens, but config\.json says that the weights are for vocab_size 100",
    ),
}


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("what", WRONG)
def test_a_directory_that_is_not_whole_or_not_ours_is_one_sentence(what: str, made: Make, tmp_path: Path) -> None:
    from training.hugging_face.importing import import_

    spoil, sentence = WRONG[what]
    directory, _ = made()
    spoil(directory)
    with pytest.raises(UserError, match=sentence) as caught:
        import_(directory, str(tmp_path / "out"))
    assert str(directory) in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("one_rank")
def test_an_export_wants_the_tokenizer_that_the_weights_know(
    made: Make, tmp_path: Path, corpus_directory: Path
) -> None:
    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    directory, _ = made()
    (directory / "tokenizer.json").write_text((directory / "tokenizer.json").read_text() + " ")
    import_(directory, str(tmp_path / "ours"))
    with pytest.raises(UserError, match="was made with another tokenizer than the data"):
        export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "out", "bf16")


def test_the_command_refuses_with_one_message_and_exit_status_2(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "x")]
    for arguments, sentence in (
        (["import", "--from", str(tmp_path)], f"import: {tmp_path}/config.json: cannot be read"),
        (["export", "--checkpoint", str(tmp_path), "--data", "x"], f"export: {tmp_path}: there is no complete check"),
        (["export", "--checkpoint", "fsx:/x", "--data", "x"], "export: fsx:/x: TRAINWAY_LOCATIONS in the environment"),
    ):
        with pytest.raises(SystemExit) as caught:
            command(*arguments, *out)
        assert caught.value.code == 2
        (message,) = capsys.readouterr().err.splitlines()
        assert message.startswith(sentence)


@pytest.mark.usefixtures("one_rank")
def test_weights_that_the_type_cannot_hold_are_not_exported(made: Make, corpus_directory: Path, tmp_path: Path) -> None:
    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    directory, _ = made()
    spoil_tensors(directory, lambda tensors: tensors[UP].view(-1)[0].fill_(1e5))
    import_(directory, str(tmp_path / "ours"))
    with pytest.raises(UserError, match=r"layers\.0\.mlp\.up_proj\.weight has numbers above 65504, .* --dtype fp32"):
        export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "out", "fp16")
    assert not (tmp_path / "out/config.json").exists()


@pytest.mark.usefixtures("one_rank")
def test_weights_that_are_not_finite_are_not_exported(
    made: Make, corpus_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.hugging_face import importing
    from training.hugging_face.exporting import export
    from training.hugging_face.importing import import_

    directory, _ = made()
    tensor_of_file = importing._Files.tensor
    monkeypatch.setattr(importing._Files, "tensor", lambda self, name: tensor_of_file(self, name).fill_(float("nan")))
    monkeypatch.setattr(importing, "check_finite", lambda *_: None)
    import_(directory, str(tmp_path / "ours"))
    with pytest.raises(UserError, match=r"embed_tokens\.weight has numbers that are not finite.*older checkpoint"):
        export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "out", "bf16")
    assert not list((tmp_path / "out").glob("*.safetensors"))
    assert not (tmp_path / "out/config.json").exists()


@pytest.mark.usefixtures("one_rank")
def test_weights_that_are_not_finite_are_not_imported(made: Make, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from training.checkpoint.stored import complete
    from training.hugging_face.importing import import_

    directory, _ = made()
    file = next(directory.glob("*.safetensors"))
    tensors = load_file(file)
    name = sorted(tensors)[-1]
    tensors[name].view(-1)[-1] = float("inf")
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(UserError, match=rf"{file}: {re.escape(name)} has numbers that are not finite. Copy the file"):
        import_(directory, str(tmp_path / "ours"))
    assert not complete(str(tmp_path / "ours"))
