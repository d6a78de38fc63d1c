"""Train a language model on the bytes of a text file, with a loop of one's own and Hugging Face's Accelerate."""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader


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


def save(accelerator: Accelerator, output: Path, step: int) -> None:
    """Save a checkpoint of this step. A run that is killed meanwhile keeps the one before."""
    accelerator.save_state(str(output / "unfinished"))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        (output / "unfinished").rename(output / f"step-{step}")
    accelerator.wait_for_everyone()


def main() -> None:
    """Train as one rank of torchrun."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--length", type=int, default=256)
    asked = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(0)
    text = torch.tensor(list(asked.data.read_bytes()))
    windows = text[: len(text) // (asked.length + 1) * (asked.length + 1)].view(-1, asked.length + 1)
    model = ByteModel(asked.width, asked.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(windows, batch_size=8, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    step = max((int(each.name.removeprefix("step-")) for each in asked.output.glob("step-*")), default=0)
    if step:
        accelerator.load_state(str(asked.output / f"step-{step}"))
    accelerator.print(f"starts after step {step}", flush=True)

    while step < asked.steps:
        loader.set_epoch(step // len(loader))
        for batch in skip_first_batches(loader, step % len(loader)):
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            accelerator.print(f"step={step} loss={loss.item():.4f}", flush=True)
            if step % asked.save_every == 0:
                save(accelerator, asked.output, step)
            if step == asked.steps:
                break
    accelerator.end_training()


if __name__ == "__main__":
    main()
