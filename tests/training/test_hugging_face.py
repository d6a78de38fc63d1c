"""Weights go to transformers and come from there, and its models compute what ours do."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.checkpoint import weights
from training.checkpoint.stored import complete
from training.config import Job, Variant
from training.config.presets import PRESETS, RotaryScaling, Shape, shape_of
from training.data.batches import read
from training.data.shards import read_index
from training.data.sources import open_sources
from training.errors import UserError
from training.hugging_face import importing
from training.hugging_face.__main__ import main, one_process
from training.hugging_face.configuration import ModelFamily, job_section, merged, read_config, with_end, write_config
from training.hugging_face.exporting import export
from training.hugging_face.importing import import_
from training.model.decoder import Decoder, rotary_cache
from training.model.loss import cross_entropy

# The library takes some seconds to import.

LENGTH = 32
# In fp32, of logits of up to 3.
LARGEST_DIFFERENCE = 1e-5
# What Llama 3.1 has, for texts that are longer than 16.
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaConfig", {"tie_word_embeddings": False}),
    "Llama, tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "Llama 3.1": ("LlamaConfig", {"rope_parameters": STRETCHED}),
    "Llama with wide heads": ("LlamaConfig", {"head_dim": 32}),
    "Mistral with a window": ("MistralConfig", {"sliding_window": 7}),
    "Mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": 9}),
    "ERNIE 4.5 with experts": (
        "Ernie4_5_MoeConfig",
        {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 96,
            "moe_num_shared_experts": 0,
            "moe_layer_start_index": 0,
        },
    ),
}

Make = Callable[..., tuple[Path, Any]]
Command = Callable[..., None]


@pytest.fixture(scope="module")
def transformers() -> Any:
    """The library; here, so that other tests do not wait for its import."""
    import transformers

    return transformers


@pytest.fixture
def made(transformers: Any, corpus_directory: Path, tmp_path: Path) -> Make:
    """A model of transformers with random weights, saved in several files beside the tokenizer of the corpus."""

    def make(model: str = "Llama", **sizes: Any) -> tuple[Path, Any]:
        name, changes = MODELS[model]
        usual = {
            "vocab_size": read_index(str(corpus_directory)).vocabulary,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5,
        }
        torch.manual_seed(0)
        built = transformers.AutoModelForCausalLM.from_config(
            getattr(transformers, name)(**usual | changes | sizes), attn_implementation="eager"
        )
        with torch.no_grad():
            for name, tensor in [*built.named_parameters(), *built.named_buffers()]:
                if "correction_bias" in name:
                    tensor.normal_(0, 0.05)
                elif name.endswith("weight"):
                    # As drawn, all logits are nearly the same, and the norms do nothing.
                    tensor.add_(torch.randn_like(tensor) * 0.1) if tensor.ndim == 1 else tensor.mul_(4)
        directory = tmp_path / f"made-{len(list(tmp_path.glob('made-*')))}"
        built.save_pretrained(directory, max_shard_size="100KB")
        shutil.copy(corpus_directory / "tokenizer.json", directory)
        return directory, built.eval()

    return make


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line, in this process."""

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["hugging_face", *arguments])
        main()

    return run


def tokens(vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, (2, LENGTH), generator=torch.Generator().manual_seed(3))


def our_logits(source: str, shape: Shape, vocabulary: int) -> Tensor:
    model = Decoder(shape, vocabulary)
    weights.read(source, model.state_dict())
    with torch.no_grad():
        logits: Tensor = model(tokens(vocabulary), rotary_cache(shape, LENGTH))
    return logits


def their_logits(model: Any, vocabulary: int) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(tokens(vocabulary)).logits
    return logits


def difference(one: Tensor, other: Tensor, least: float = 1.0) -> float:
    assert one.abs().max() > least, "there is something to compare"
    return (one - other).abs().max().item()


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_transformers_has_the_same_logits_here_and_when_it_goes_back(
    model: str, made: Make, transformers: Any, corpus_directory: Path, tmp_path: Path
) -> None:
    directory, theirs = made(model)
    vocabulary = theirs.config.vocab_size
    shape = import_(directory, str(tmp_path / "ours"))
    source = weights.find(str(tmp_path / "ours"))
    ours = our_logits(source, shape, vocabulary)
    assert difference(ours, their_logits(theirs, vocabulary)) < LARGEST_DIFFERENCE

    export(source, str(corpus_directory), tmp_path / "back", "fp32", file_bytes=100_000)
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", attn_implementation="eager")
    assert type(back) is type(theirs)
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
    job |= {"variant": {"experts": experts, "sliding_window": None if experts else 9}}
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


def describe(directory: Path) -> None:
    """Add to a saved model what transformers needs to chat with it."""
    spoil_config(directory, eos_token_id=[7, 5], made_by="someone")
    generation = {"temperature": 0.6, "do_sample": True, "eos_token_id": [7, 5]}
    (directory / "generation_config.json").write_text(json.dumps(generation))
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<0x00>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    template = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    (directory / "chat_template.jinja").write_text(template)


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


IMPORTED: dict[str, tuple[torch.dtype, Callable[[Path], Any]]] = {
    "bf16": (torch.bfloat16, lambda _: None),
    "fp16, of transformers 4": (torch.float16, as_before_transformers_5),
    "fp32": (torch.float32, lambda _: None),
    "fp16 that only the weights say": (torch.float16, without("dtype")),
    "generation described by config.json": (torch.bfloat16, lambda d: (d / "generation_config.json").unlink()),
    "ends of a text in config.json only": (
        torch.bfloat16,
        lambda d: (d / "generation_config.json").write_text('{"temperature": 0.6, "do_sample": true}'),
    ),
}


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("case", IMPORTED)
def test_transformers_reads_what_it_wrote(
    case: str, made: Make, transformers: Any, corpus_directory: Path, tmp_path: Path
) -> None:
    """Everything that its readers return is the same before an import and after an export."""
    dtype, change = IMPORTED[case]
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
def test_weights_that_the_type_cannot_hold_are_not_exported(made: Make, corpus_directory: Path, tmp_path: Path) -> None:
    directory, _ = made()
    spoil_tensors(directory, lambda tensors: tensors[UP].view(-1)[0].fill_(1e5))
    import_(directory, str(tmp_path / "ours"))
    with pytest.raises(UserError, match=r"layers\.0\.mlp\.up_proj\.weight has numbers above 65504, .* --dtype fp32"):
        export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "out", "fp16")
    assert not (tmp_path / "out/config.json").exists()


def umask() -> int:
    """Return the bits that new files do not get."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_job_starts_from_imported_weights_and_goes_on_from_its_own(
    launch: Any,
    job: dict[str, Any],
    made: Make,
    command: Command,
    transformers: Any,
    corpus_directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
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
    directory, _ = made()
    import_(directory, str(tmp_path / "weights"))
    assert weights.find(f"{tmp_path}/weights/step-00000000") == weights.find(str(tmp_path / "weights"))
    with pytest.raises(UserError, match="weights has those of the steps 0"):
        weights.find(f"{tmp_path}/weights/step-00000007")
    with pytest.raises(UserError, match="no complete checkpoint here"):
        weights.find(str(tmp_path))


@pytest.mark.usefixtures("one_rank")
def test_weights_travel_one_tensor_at_a_time(made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a model that fills half of the memory can be read."""
    directory, _ = made()
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def counted(tensor: Tensor, *_: Any) -> Tensor:
        nonlocal most
        copy = tensor.clone()
        alive.append(weakref.ref(copy))
        most = max(most, sum(each() is not None for each in alive))
        return copy

    monkeypatch.setattr(importing._Files, "tensor", lambda self, name: counted(original(self, name)))
    import_(directory, str(tmp_path / "weights"))
    assert len(alive) == 30
    # The one that was written last is let go when the next one is there.
    assert most <= 2


original = importing._Files.tensor


@pytest.mark.usefixtures("one_rank")
def test_the_files_have_the_type_that_was_asked_for(made: Make, corpus_directory: Path, tmp_path: Path) -> None:
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
    vocabulary = read_index(str(corpus_directory)).vocabulary
    directory, theirs = made(vocab_size=vocabulary + 40)
    shape = import_(directory, str(tmp_path / "ours"))
    assert f"rows for {vocabulary + 40} tokens and a tokenizer of {vocabulary}" in capsys.readouterr().err
    ours = our_logits(weights.find(str(tmp_path / "ours")), shape, vocabulary)
    assert difference(ours, their_logits(theirs, vocabulary)[..., :vocabulary]) < LARGEST_DIFFERENCE


def spoil_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def spoil_tensors(directory: Path, change: Callable[[dict[str, Tensor]], Any]) -> None:
    """Changes the file of the first layer's tensors, and the index with it."""
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    path = directory / index["weight_map"]["model.layers.0.mlp.up_proj.weight"]
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if file != path.name}
    index["weight_map"] |= dict.fromkeys(tensors, path.name)
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


UP = "model.layers.0.mlp.up_proj.weight"
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
        lambda d: spoil_tensors(d, lambda tensors: tensors.update({"model.layers.0.mlp.up_proj.bias": torch.ones(96)})),
        r"has the tensor model\.layers\.0\.mlp\.up_proj\.bias, which models of llama here do not have",
    ),
    "quantised": (
        lambda d: spoil_tensors(d, lambda tensors: tensors.update({UP: tensors[UP].to(torch.int8)})),
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


LLAMA_3_1_8B = replace(PRESETS["8b"], rope_scaling=RotaryScaling(8.0, 8192))


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


@pytest.mark.usefixtures("one_rank")
def test_weights_that_are_not_finite_are_not_exported(
    made: Make, corpus_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = made()
    monkeypatch.setattr(importing._Files, "tensor", lambda self, name: original(self, name).fill_(float("nan")))
    monkeypatch.setattr(importing, "check_finite", lambda *_: None)
    import_(directory, str(tmp_path / "ours"))
    with pytest.raises(UserError, match=r"embed_tokens\.weight has numbers that are not finite.*older checkpoint"):
        export(str(tmp_path / "ours"), str(corpus_directory), tmp_path / "out", "bf16")
    assert not list((tmp_path / "out").glob("*.safetensors"))
    assert not (tmp_path / "out/config.json").exists()


@pytest.mark.usefixtures("one_rank")
def test_weights_that_are_not_finite_are_not_imported(made: Make, tmp_path: Path) -> None:
    directory, _ = made()
    file = next(directory.glob("*.safetensors"))
    tensors = load_file(file)
    name = sorted(tensors)[-1]
    tensors[name].view(-1)[-1] = float("inf")
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(UserError, match=rf"{file}: {re.escape(name)} has numbers that are not finite. Copy the file"):
        import_(directory, str(tmp_path / "ours"))
    assert not complete(str(tmp_path / "ours"))


def test_a_job_does_not_start_from_weights_that_are_not_finite(
    launch: Any, job: dict[str, Any], made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    output, _ = run.process.communicate(timeout=180)
    assert run.process.returncode != 0
    assert f"checkpoint.start_from: {tmp_path}/weights" in output
    assert "has weights that are not finite; name other weights" in output
    assert not run.events("step")
