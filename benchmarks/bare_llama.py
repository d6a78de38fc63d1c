"""Train the layers of Llama 3 by a loop without anything else: the bound for the programs that single_gpu.py compares.

The model is written out here and shares no code with the job. Weights are fp32 with AdamW's fused kernel. The products
use a copy in bf16, which each step refreshes. There is no data, clipping, metric, or checkpoint.
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, rms_norm, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from training.config.presets import PRESETS, Shape

CHUNKS = 8  # of the logits, as in the job that single_gpu.py measures
MARK = "tokens per second: "


class Layer(nn.Module):
    """A layer of a decoder: attention with rotary positions and grouped heads, and a gated feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.groups, self.width = shape.heads, shape.key_value_heads, shape.hidden // shape.heads
        keys = self.groups * self.width
        self.split = [shape.hidden, keys, keys]
        self.before_attention, self.before_feed_forward = (nn.Parameter(torch.ones(shape.hidden)) for _ in range(2))
        self.inward = nn.Linear(shape.hidden, sum(self.split), bias=False)
        self.outward = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.gate_and_up = nn.Linear(shape.hidden, 2 * shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return the output for `x`: [samples, tokens, hidden]. The tables are [tokens, width of a head]."""
        samples, tokens, hidden = x.shape
        parts = self.inward(rms_norm(x, (hidden,), self.before_attention)).split(self.split, dim=-1)
        query, key, value = (part.view(samples, tokens, -1, self.width).transpose(1, 2) for part in parts)
        query, key = (rotated(part, cosine, sine) for part in (query, key))
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=self.heads != self.groups)
        x = x + self.outward(mixed.transpose(1, 2).reshape(samples, tokens, hidden))
        gate, up = self.gate_and_up(rms_norm(x, (hidden,), self.before_feed_forward)).chunk(2, dim=-1)
        out: Tensor = x + self.down(silu(gate) * up)
        return out


class Llama(nn.Module):
    """The layers between an embedding and an output matrix of their own."""

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.before_output = nn.Parameter(torch.ones(shape.hidden))
        self.output = nn.Linear(shape.hidden, vocabulary, bias=False)

    def forward(self, tokens: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return the mean loss of [samples, tokens + 1] tokens, with the logits of a chunk at a time in memory."""
        x = self.embedding(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x, cosine, sine)
        x = rms_norm(x, x.shape[-1:], self.before_output).flatten(0, 1)
        pairs = zip(x.chunk(CHUNKS), tokens[:, 1:].flatten().chunk(CHUNKS), strict=True)
        losses = [checkpoint(self.loss, part, targets, use_reentrant=False) for part, targets in pairs]
        return torch.stack(losses).sum() / len(x)

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the summed loss of [tokens, hidden]."""
        return cross_entropy(self.output(x).float(), targets, reduction="sum")


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate the two halves of each head by its position."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def main() -> None:
    """Take steps on random tokens until killed, and print the rate of every five."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bare_llama", description=__doc__)
    for name, kind in (("model", str), ("length", int), ("vocabulary", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--compile", metavar="BACKEND", help="compile the layers and the loss, for example by inductor")
    chosen = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = PRESETS[chosen.model]
    torch.manual_seed(0)
    with device:
        model = Llama(shape, chosen.vocabulary)
        width = shape.hidden // shape.heads
        frequencies = shape.rope_theta ** -(torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(chosen.length), frequencies)
        tables = [torch.cat((table, table), dim=-1).bfloat16() for table in (angles.cos(), angles.sin())]
        tokens = torch.randint(0, chosen.vocabulary, (1, chosen.length + 1))
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    model.bfloat16()
    copies = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, 3e-4, (0.9, 0.95), fused=True)
    if chosen.compile:
        for layer in model.layers:
            layer.compile(backend=chosen.compile)
        model.loss = torch.compile(model.loss, backend=chosen.compile)  # type: ignore[method-assign]
    steps, began = 0, time.perf_counter()
    while True:
        model(tokens, *tables).backward()
        for weight, copy in zip(weights, copies, strict=True):
            assert copy.grad is not None
            weight.grad, copy.grad = copy.grad.float(), None
        optimizer.step()
        optimizer.zero_grad()
        torch._foreach_copy_([copy.detach() for copy in copies], weights)
        steps += 1
        if steps % 5 == 0:
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds, began = time.perf_counter() - began, time.perf_counter()
            print(f"{MARK}{5 * chosen.length / seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()
