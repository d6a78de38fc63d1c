"""Model families of transformers that compute what `training/model/decoder.py` does, each by what Llama does not do.

https://github.com/huggingface/transformers/tree/v5.18.0/src/transformers/models (read 2026-11-21)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from training.config.presets import Shape

ModelFamily = Literal["llama", "mistral", "mixtral", "ernie4_5_moe"]
"""The values of `model_type` in a `config.json`."""


@dataclass(frozen=True)
class ExpertNames:
    """The names of the tensors of experts in a layer."""

    block: str
    """Name of the module with the router and the experts."""
    projections: Mapping[str, str] = field(default_factory=dict)
    """Names of an expert's projections by ours. A projection that is absent has our name."""
    bias: str | None = None
    """Name of the correction bias of the router. None: the family has no bias."""


@dataclass(frozen=True)
class Family:
    """One model family. Each default is what Llama does."""

    architecture: str
    """Class of the model in transformers, for `architectures` of a `config.json`."""
    own_keys: Callable[[Shape], dict[str, Any]] = lambda _: {}
    """Return the keys of a `config.json` that Llama does not have."""
    usual_theta: float = 10_000.0
    """`rope_theta` of a file without the key."""
    usually_tied: bool = False
    """`tie_word_embeddings` of a file without the key."""
    has_window: bool = False
    """Whether the model uses `sliding_window`."""
    usual_window: int | None = None
    """`sliding_window` of a file without the key."""
    rotates_neighbors: bool = False
    """Whether rotary positions rotate neighboring columns of a head. We rotate its halves."""
    experts: ExpertNames | None = None
    """None: the layers have no experts."""


FAMILIES: dict[ModelFamily, Family] = {
    "llama": Family("LlamaForCausalLM"),
    # Llama with a sliding window.
    "mistral": Family(
        "MistralForCausalLM",
        own_keys=lambda shape: {"sliding_window": shape.sliding_window},
        has_window=True,
        usual_window=4096,
    ),
    # Mistral with experts.
    "mixtral": Family(
        "MixtralForCausalLM",
        own_keys=lambda shape: {
            "sliding_window": shape.sliding_window,
            "num_local_experts": shape.experts,
            "num_experts_per_tok": shape.experts_per_token,
        },
        has_window=True,
        experts=ExpertNames("block_sparse_moe", {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}),
    ),
    # ERNIE 4.5's mixture, whose router has a correction bias as ours.
    "ernie4_5_moe": Family(
        "Ernie4_5_MoeForCausalLM",
        own_keys=lambda shape: {
            "use_bias": False,
            "moe_intermediate_size": shape.feed_forward,
            "moe_num_experts": shape.experts,
            "moe_k": shape.experts_per_token,
            "moe_num_shared_experts": 0,
            "moe_layer_start_index": 0,
            "moe_layer_end_index": shape.layers - 1,
            "moe_layer_interval": 1,
        },
        usual_theta=500_000.0,
        usually_tied=True,
        rotates_neighbors=True,
        experts=ExpertNames("mlp", bias="moe_statics.e_score_correction_bias"),
    ),
}
