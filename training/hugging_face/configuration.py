"""Convert a model's shape to a `config.json`, and back."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from training.config.presets import PRESETS, RotaryScaling, Shape
from training.errors import UserError
from training.hugging_face.families import FAMILIES, ModelFamily


class _Rotary(BaseModel):
    """Rotary settings: `rope_parameters` of transformers 5, `rope_scaling` in earlier versions."""

    rope_type: str | None = Field(None, validation_alias=AliasChoices("rope_type", "type"))
    rope_theta: float | None = None
    factor: float | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    original_max_position_embeddings: int | None = None
    partial_rotary_factor: float = 1.0


class _Config(BaseModel):
    """The keys of a `config.json` that determine what the model computes."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model_type: ModelFamily
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float
    tie_word_embeddings: bool | None = None
    max_position_embeddings: int = 2048
    rope_theta: float | None = None
    rope_scaling: _Rotary | None = None
    rope_parameters: _Rotary | None = None
    sliding_window: int | None = None
    layer_types: list[str] = []
    num_local_experts: int = Field(0, validation_alias=AliasChoices("num_local_experts", "moe_num_experts"))
    num_experts_per_tok: int = Field(2, validation_alias=AliasChoices("num_experts_per_tok", "moe_k"))
    moe_intermediate_size: int | None = None
    # Our model computes only one value of each of these.
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    use_bias: Literal[False] = False
    moe_num_shared_experts: Literal[0] = 0
    moe_layer_start_index: Literal[0] = 0
    moe_layer_interval: Literal[1] = 1


def write_config(
    family: ModelFamily, shape: Shape, vocabulary: int, sequence_length: int, end_of_text: int, dtype: str
) -> dict[str, Any]:
    """Return the content of a `config.json`. `dtype` is PyTorch's name of the weights' type."""
    config: dict[str, Any] = {
        "architectures": [FAMILIES[family].architecture],
        "model_type": family,
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "max_position_embeddings": sequence_length,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "tie_word_embeddings": shape.tied,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": end_of_text,
        "pad_token_id": None,
        "torch_dtype": dtype,
    }
    if shape.rope_scaling:
        config["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": shape.rope_scaling.factor,
            "low_freq_factor": shape.rope_scaling.low_turns,
            "high_freq_factor": shape.rope_scaling.high_turns,
            "original_max_position_embeddings": shape.rope_scaling.original_length,
        }
    return config | FAMILIES[family].own_keys(shape)


ROTARY = ("rope_theta", "rope_scaling", "rope_parameters")
OF_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
OF_USE = ("initializer_range", "use_cache")
"""Keys that do not change what the model computes."""
DTYPES = ("float64", "float32", "float16", "bfloat16")
DTYPE_KEYS = ("dtype", "torch_dtype")
"""Names of the type of the weights: that of transformers 5, and that of earlier versions, which it reads, too."""


def merged(config: dict[str, Any], imported: bytes) -> dict[str, Any]:
    """Return `config` with what else the `config.json` says that the weights were imported with.

    `config` is the result of `write_config`, which decides what the model computes. The imported file decides about
    special tokens and the maximum length, and how rotary positions are written if they are the same. It also decides
    under which name the type of the weights is written. Its unknown keys are added if the model is still of its family.
    """
    family, shape, _, length = _described(imported, Path("config.json"))
    theirs: dict[str, Any] = json.loads(imported)
    ours = config | {key: theirs[key] for key in (*OF_TOKENS, *OF_USE) if theirs.get(key) is not None}
    ours["eos_token_id"] = with_end(theirs.get("eos_token_id"), config["eos_token_id"])
    ours["max_position_embeddings"] = max(length, config["max_position_embeddings"])
    if "torch_dtype" not in theirs:
        ours["dtype"] = ours.pop("torch_dtype")
    if family != config["model_type"]:
        return ours
    _, our_shape, _, _ = _described(json.dumps(config).encode(), Path("config.json"))
    if (shape.rope_theta, shape.rope_scaling) == (our_shape.rope_theta, our_shape.rope_scaling):
        ours = {key: value for key, value in ours.items() if key not in ROTARY}
    else:
        theirs = {key: value for key, value in theirs.items() if key not in ROTARY}
    # Exported weights are not quantized.
    return {key: value for key, value in theirs.items() if key not in (*DTYPE_KEYS, "quantization_config")} | ours


def dtype_of(imported: bytes) -> str | None:
    """Return the type of the weights in a `config.json`, by PyTorch's name, or None if it has none of DTYPES."""
    config: dict[str, Any] = json.loads(imported)
    return next((config[key] for key in DTYPE_KEYS if config.get(key) in DTYPES), None)


def with_dtype(imported: bytes, dtype: str) -> bytes:
    """Return a `config.json` with the type of the weights: the type that it already has, or `dtype`."""
    if dtype_of(imported):
        return imported
    config = {key: value for key, value in json.loads(imported).items() if key not in DTYPE_KEYS}
    return json.dumps(config | {"torch_dtype": dtype}, indent=2).encode()


def with_end(theirs: int | list[int] | None, ours: int) -> int | list[int]:
    """Return the tokens at which a text ends: those of an imported file, and the one that the data ends with."""
    if theirs is None or theirs == ours:
        return ours
    ends = theirs if isinstance(theirs, list) else [theirs]
    return ends if ours in ends else [*ends, ours]


def read_config(path: Path) -> tuple[ModelFamily, Shape, int, int]:
    """Return family, shape, vocabulary, and longest text in tokens of a `config.json`.

    Raises:
        UserError: the file does not exist, or it describes a model that ours does not support.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    return _described(content, path)


def _described(content: bytes, path: Path) -> tuple[ModelFamily, Shape, int, int]:
    try:
        config = _Config.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in problem["loc"])
        found = "" if problem["type"] == "missing" else f" (found {problem['input']!r})"
        raise UserError(
            f"{path}: {key}: {problem['msg']}{found}. Supported are only models of {', '.join(FAMILIES)} without biases"
        ) from error
    if len(set(config.layer_types)) > 1:
        raise UserError(f"{path}: layer_types has {sorted(set(config.layer_types))}, but ours has only one")
    rotary = config.rope_parameters or config.rope_scaling or _Rotary()
    family = FAMILIES[config.model_type]
    width = (config.head_dim or config.hidden_size // config.num_attention_heads) * config.num_attention_heads
    mixture = family.experts is not None
    shape = Shape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        key_value_heads=config.num_key_value_heads or config.num_attention_heads,
        feed_forward=config.moe_intermediate_size or config.intermediate_size if mixture else config.intermediate_size,
        tied=family.usually_tied if config.tie_word_embeddings is None else config.tie_word_embeddings,
        rope_theta=rotary.rope_theta or config.rope_theta or family.usual_theta,
        norm_epsilon=config.rms_norm_eps,
        rope_scaling=_scaling(rotary, path),
        sliding_window=_window(config),
        experts=config.num_local_experts if mixture else 0,
        experts_per_token=config.num_experts_per_tok if mixture else Shape.experts_per_token,
        attention_width=None if width == config.hidden_size else width,
    )
    return config.model_type, shape, config.vocab_size, config.max_position_embeddings


def _window(config: _Config) -> int | None:
    family = FAMILIES[config.model_type]
    if "sliding_window" not in config.model_fields_set:
        return family.usual_window
    return config.sliding_window if family.has_window else None


def _scaling(rotary: _Rotary, path: Path) -> RotaryScaling | None:
    if rotary.partial_rotary_factor != 1.0:
        raise UserError(f"{path}: partial_rotary_factor is {rotary.partial_rotary_factor}, but ours is 1")
    if rotary.rope_type in (None, "default"):
        return None
    if rotary.rope_type != "llama3":
        raise UserError(f"{path}: the rope_type is {rotary.rope_type!r}; supported are default and llama3")
    if not (rotary.factor and rotary.original_max_position_embeddings):
        raise UserError(f"{path}: a rope_type of llama3 needs factor and original_max_position_embeddings")
    return RotaryScaling(
        rotary.factor,
        rotary.original_max_position_embeddings,
        rotary.low_freq_factor or RotaryScaling.low_turns,
        rotary.high_freq_factor or RotaryScaling.high_turns,
    )


def job_section(shape: Shape) -> dict[str, Any]:
    """Return `model` and `variant` of a job file for a model of this shape, from the preset with the fewest changes."""
    presets = []
    for preset, known in PRESETS.items():
        changes = {
            field.name: getattr(shape, field.name)
            for field in fields(Shape)
            if getattr(shape, field.name) != getattr(known, field.name)
        }
        # A variant can change a preset's experts, but not remove them.
        if None not in changes.values() and bool(shape.experts) == bool(changes.get("experts", known.experts)):
            presets.append((bool(shape.experts) != bool(known.experts), len(changes), preset, changes))
    _, _, preset, changes = min(presets, key=lambda each: each[:2])
    if shape.rope_scaling and "rope_scaling" in changes:
        changes["rope_scaling"] = asdict(shape.rope_scaling)
    return {"model": preset, "variant": changes}
