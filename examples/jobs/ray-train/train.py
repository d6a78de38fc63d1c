"""Train a language model on the bytes of a text file, with Ray Train: this driver runs on the first node only."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
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


def train(asked: dict[str, Any]) -> None:
    """Train as one worker of Ray Train."""
    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(ByteModel(asked["width"], asked["length"]))
    inner = model.module if hasattr(model, "module") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.tensor(list(Path(asked["data"]).read_bytes()))
    windows = text[: len(text) // (asked["length"] + 1) * (asked["length"] + 1)].view(-1, asked["length"] + 1)
    loader = ray.train.torch.prepare_data_loader(DataLoader(windows, batch_size=8, shuffle=True, drop_last=True))

    step = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory, "state.pt"), map_location="cpu", weights_only=True)
        inner.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    first = ray.train.get_context().get_world_rank() == 0
    if first:
        print(f"starts after step {step}", flush=True)

    while step < asked["steps"]:
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(step // len(loader))
        done = step % len(loader)
        for number, batch in enumerate(loader):
            if number < done or step == asked["steps"]:
                continue
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if first:
                print(f"step={step} loss={loss.item():.4f}", flush=True)
            if step % asked["save_every"] == 0:
                with tempfile.TemporaryDirectory() as directory:
                    state = {"model": inner.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                    if first:
                        torch.save(state, Path(directory, "state.pt"))
                    kept = Checkpoint.from_directory(directory) if first else None
                    ray.train.report({"loss": loss.item(), "step": step}, checkpoint=kept)


def main() -> None:
    """Start the workers, and wait for their end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--length", type=int, default=256)
    asked = parser.parse_args()
    ray.init(address="auto")
    # A run of the same name and storage resumes from the last checkpoint that it reported.
    run = RunConfig(name="run", storage_path=asked.output, failure_config=FailureConfig(max_failures=0))
    scaling = ScalingConfig(num_workers=asked.workers, use_gpu=torch.cuda.is_available())
    ray.train.torch.TorchTrainer(train, train_loop_config=vars(asked), scaling_config=scaling, run_config=run).fit()


if __name__ == "__main__":
    main()
