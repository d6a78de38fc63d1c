"""Train with a loop that is written by hand and saves snapshots, as a peer of the training job in recovery.py.

    torchrun … bare_restarted.py DIRECTORY COLLECTIVE_TIMEOUT_SECONDS
    ft_launcher … bare_restarted.py DIRECTORY COLLECTIVE_TIMEOUT_SECONDS

Under ft_launcher, each rank sends a heartbeat after each step. ft_launcher kills a rank whose heartbeat is late.

Rank 0 appends the time of each step to `steps.jsonl` in the directory, and saves a snapshot every ten steps. A
restarted loop resumes from the snapshot.
"""

import json
import os
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, EVERY = 256, 8, 10


def main() -> None:
    """Train until the process is killed."""
    directory, timeout = Path(sys.argv[1]), float(sys.argv[2])
    # Hosts can use the same process IDs.
    process = uuid.uuid4().hex
    dist.init_process_group("gloo")
    dist.barrier()
    # A timeout of its own for the steps: ranks start at different speeds.
    group = dist.new_group(timeout=timedelta(seconds=timeout))
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(8)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group)
    optimizer = torch.optim.AdamW(model.parameters())
    monitor = rank_monitor()
    step, snapshot = 0, directory / "snapshot.pt"
    if snapshot.exists():
        state = torch.load(snapshot, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    while True:
        model(torch.randn(BATCH, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if monitor is not None:
            monitor.send_heartbeat()
        if dist.get_rank() == 0:
            with (directory / "steps.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, "time": time.time(), "process": process}) + "\n")
            if step % EVERY == 0:
                part = snapshot.with_suffix(".part")
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
                part.replace(snapshot)
        time.sleep(0.02)


def rank_monitor() -> Any:
    """Return the client that sends heartbeats to ft_launcher, or None if torchrun started this process."""
    if "FT_RANK_MONITOR_IPC_SOCKET" not in os.environ:
        return None
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

    client = RankMonitorClient()
    client.init_workload_monitoring()
    return client


if __name__ == "__main__":
    main()
