"""A mixture of experts: many feed-forwards in a layer, a few of which process each token (arXiv 2401.04088).

The router's softmax selects the best experts of every token and their shares. A bias that affects only the selection
balances the experts: after each step it rises for experts with fewer tokens than the mean and falls for the others
(arXiv 2408.15664). It has no gradient, so it does not compete with the loss. It is computed from the whole batch, so
every layout learns the same.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from training.config.presets import Shape

BIAS_STEP = 1e-3
"""Change of a bias in one step: the update rate u of arXiv 2408.15664, also that of DeepSeek-V3 (2412.19437)."""


class Experts(nn.Module):
    """The SwiGLU of every expert, each a slice of three tensors."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Parameter(torch.empty(shape.experts, shape.hidden, shape.feed_forward))
        self.up_proj = nn.Parameter(torch.empty(shape.experts, shape.hidden, shape.feed_forward))
        self.down_proj = nn.Parameter(torch.empty(shape.experts, shape.feed_forward, shape.hidden))

    def forward(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Return the outputs of tokens sorted by expert: [tokens, hidden].

        Each expert has `counts` tokens, [experts].
        """
        return swiglu(tokens, counts, self.gate_proj, self.up_proj, self.down_proj)


def swiglu(tokens: Tensor, counts: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Return each expert's feed-forward of its tokens (see `Experts.forward`)."""
    inner = F.silu(_multiplied(tokens, gate, counts)) * _multiplied(tokens, up, counts)
    return _multiplied(inner, down, counts)


def _multiplied(tokens: Tensor, weights: Tensor, counts: Tensor) -> Tensor:
    """Multiply [tokens, in] by [experts, in, out], each token with the matrix of its expert."""
    if tokens.dtype == torch.bfloat16 and hasattr(F, "grouped_mm"):
        return F.grouped_mm(tokens, weights, offs=counts.cumsum(0, dtype=torch.int32))
    parts = torch.split(tokens, counts.tolist())
    return torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])


class MixtureOfExperts(nn.Module):
    """A mixture of experts that replaces a layer's feed-forward part: [batch, sequence, hidden] to the same shape."""

    bias: Tensor
    chosen: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.experts_per_token = shape.experts_per_token
        self.router = nn.Linear(shape.hidden, shape.experts, bias=False)
        self.experts = Experts(shape)
        self.register_buffer("bias", torch.zeros(shape.experts))
        # Tokens of this rank for each expert since the last step. They are not part of a checkpoint.
        self.register_buffer("chosen", torch.zeros(shape.experts), persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        tokens = hidden.flatten(0, 1)
        scores = self.router(tokens).float().softmax(dim=-1)
        choice = (scores.detach() + self.bias).topk(self.experts_per_token, dim=-1).indices
        shares = scores.gather(-1, choice)
        shares = shares / shares.sum(dim=-1, keepdim=True)

        expert_of = choice.flatten()
        # bincount would inspect the numbers first, and so wait for the device.
        counts = torch.zeros_like(self.bias, dtype=torch.int64).index_add(0, expert_of, torch.ones_like(expert_of))
        if torch.is_grad_enabled():
            self.chosen += counts
        by_expert = expert_of.argsort(stable=True)
        token_of = by_expert // self.experts_per_token
        outputs = self.experts(tokens[token_of], counts) * shares.flatten()[by_expert, None].type_as(tokens)
        return torch.zeros_like(tokens).index_add(0, token_of, outputs).view_as(hidden)


@torch.no_grad()
def balance(model: nn.Module, mesh: DeviceMesh, skipped: Tensor) -> None:
    """Update the biases after a step, from the choices of all ranks of the job's mesh that have the same layers.

    `skipped` is 1 if the step changes nothing, otherwise 0: [], on the device.
    """
    mixtures = [module for module in model.modules() if isinstance(module, MixtureOfExperts)]
    if not mixtures:
        return
    chosen = torch.stack([mixture.chosen for mixture in mixtures])
    for dimension in ("fsdp", "dp_replicate"):
        dist.all_reduce(chosen, group=mesh.get_group(dimension))
    # Activation checkpointing counts all tokens of a layer twice, which does not change the sign.
    steps = BIAS_STEP * (1 - skipped) * (chosen.mean(dim=1, keepdim=True) - chosen).sign()
    for mixture, step in zip(mixtures, steps, strict=True):
        mixture.bias += step
        mixture.chosen.zero_()
