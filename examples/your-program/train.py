"""Train a small model with plain PyTorch: it saves a checkpoint after each epoch, and resumes from the last one."""

import argparse
import gc
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train as one rank of torchrun."""
    parser = argparse.ArgumentParser(description="Train a small model.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="steps of an epoch")
    arguments = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    # The directory is the same when the run is resumed.
    checkpoint = Path(os.environ.get("TRAINWAY_OUTPUT", "outputs")) / "checkpoint.pt"
    first = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
    if rank == 0:
        print(f"attempt {os.environ.get('TRAINWAY_ATTEMPT', '1')} begins after epoch {first}", flush=True)

    parallel = DistributedDataParallel(model)
    for epoch in range(first, arguments.epochs):
        for step in range(arguments.steps):
            features = torch.randn(8, 16, device=device)
            loss = torch.nn.functional.mse_loss(parallel(features), features.sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"step={epoch * arguments.steps + step + 1} loss={loss.item():.4f}", flush=True)
        if rank == 0:
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            unfinished = checkpoint.with_suffix(".new")
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, unfinished
            )
            # A run that is stopped now keeps a whole checkpoint.
            unfinished.replace(checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # A rank that exits right after its last backward pass can abort in a thread of PyTorch. The garbage collection
    # delays the exit until the thread is idle.
    gc.collect()
