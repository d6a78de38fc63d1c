"""Train a language model on the bytes of a text file, with DeepSpeed ZeRO-3: each rank holds a part of the weights."""

import argparse
from pathlib import Path

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler


class ByteModel(nn.Module):
    """A decoder over bytes: tokens of shape (batch, length) to logits of shape (batch, length, 256)."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(256, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of each next byte."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.layers(self.embed(tokens) + self.position(places), mask=mask, is_causal=True))


def main() -> None:
    """Train as one rank of torchrun."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--length", type=int, default=256)
    asked = parser.parse_args()

    deepspeed.init_distributed()
    torch.manual_seed(0)
    model = ByteModel(asked.width, asked.length)
    settings = str(Path(__file__).with_name("zero3.json"))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
    text = torch.tensor(list(asked.data.read_bytes()))
    windows = text[: len(text) // (asked.length + 1) * (asked.length + 1)].view(-1, asked.length + 1)
    order = DistributedSampler(windows, seed=0)
    loader = DataLoader(windows, engine.train_micro_batch_size_per_gpu(), sampler=order, drop_last=True)

    checkpoints = str(Path(asked.output, "checkpoints"))
    engine.load_checkpoint(checkpoints)  # the newest one, by the file `latest`; none on the first start
    if torch.distributed.get_rank() == 0:
        print(f"starts after step {engine.global_steps}", flush=True)
    while engine.global_steps < asked.steps:
        order.set_epoch(engine.global_steps // len(loader))
        done = engine.global_steps % len(loader)
        for number, batch in enumerate(loader):
            if number < done or engine.global_steps == asked.steps:
                continue
            tokens = batch.to(engine.device)
            logits = engine(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            engine.backward(loss)
            engine.step()
            if torch.distributed.get_rank() == 0:
                print(f"step={engine.global_steps} loss={loss.item():.4f}", flush=True)
            if engine.global_steps % asked.save_every == 0:
                engine.save_checkpoint(checkpoints)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
