"""Train a language model on the bytes of a text file, with PyTorch Lightning."""

import argparse
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, OnExceptionCheckpoint
from torch import nn
from torch.utils.data import DataLoader


class ByteModel(lightning.LightningModule):
    """A decoder over bytes. A batch has the shape (batch, length + 1)."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(256, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of predicting each next byte."""
        tokens, wanted = batch[:, :-1], batch[:, 1:]
        places = torch.arange(tokens.shape[1], device=self.device)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=self.device)
        logits = self.head(self.layers(self.embed(tokens) + self.position(places), mask=mask, is_causal=True))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        if self.trainer.is_global_zero:
            print(f"step={self.global_step + 1} loss={loss.item():.4f}", flush=True)
        return loss

    def on_train_start(self) -> None:
        """Say after which step this start begins."""
        if self.trainer.is_global_zero:
            print(f"starts after step {self.global_step}", flush=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


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

    text = torch.tensor(list(asked.data.read_bytes()))
    windows = text[: len(text) // (asked.length + 1) * (asked.length + 1)].view(-1, asked.length + 1)
    loader = DataLoader(windows, batch_size=8, shuffle=True, drop_last=True)
    trainer = lightning.Trainer(
        # The numbers must be those of torchrun.
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        max_steps=asked.steps,
        callbacks=[
            ModelCheckpoint(asked.output, every_n_train_steps=asked.save_every, save_last=True),
            OnExceptionCheckpoint(asked.output),
        ],
        default_root_dir=asked.output,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(ByteModel(asked.width, asked.length), loader, ckpt_path="last")


if __name__ == "__main__":
    main()
