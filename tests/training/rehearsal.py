"""A job of many hosts, rehearsed on this one: it starts, is stopped by a signal to one rank, resumes, and ends.

python -m tests.training.rehearsal [--out FILE.json] RANKS…

Each host is a torchrun agent of its own. All meet as the hosts of a real job do. The ranks are forks
of one process that has imported all that they use.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.ports import free_port
from tests.training.torchrun_server import Started, TorchrunServer, torchrun_server
from training.data.corpus import python_standard_library

SHARDS = 8
HOSTS = 8
"""Largest number of agents. The loop of each agent takes processor time from the ranks."""
GLOBAL_BATCH = 256
STEPS = 6


@dataclass(frozen=True)
class Counted:
    """What the ranks of one start had open at its end. Rank 0 also has the store, with a socket for every rank."""

    ranks: int
    sockets: int
    """The most that a rank other than 0 has."""
    sockets_of_rank_0: int
    threads: int
    megabytes: float
    """The median of the ranks' proportional shares of memory."""


@dataclass(frozen=True)
class Rehearsed:
    """A job that was stopped and resumed: what it counted each time, and its steps and its loss as hexadecimal."""

    stopped: Counted
    resumed: Counted
    stopped_at: int
    resumed_from: int
    loss: str
    seconds: float


def job_of(directory: Path, name: str, micro: int, shards: int) -> Path:
    """Write a job whose data order and loss do not depend on its ranks."""
    from training.prepare import prepare

    corpus = directory / "corpus"
    if not corpus.exists():
        prepare(python_standard_library(limit_bytes=300_000), str(corpus), vocabulary=384, shard_bytes=75_000)
    job = directory / f"{name}.yaml"
    document = {
        "name": name,
        "model": "tiny",
        "data": {"train": str(corpus), "sequence_length": 32},
        "precision": "fp32",
        "batch": {"global": GLOBAL_BATCH, "micro": micro},
        "parallel": {"dp_shard": shards, "dp_replicate": -1},
        "steps": STEPS,
        "optimizer": {"learning_rate": 0.002},
        "schedule": {"warmup_steps": 2},
        "checkpoint": {"every": 100, "location": str(directory / f"{name}-checkpoints")},
    }
    job.write_text(yaml.safe_dump(document))
    return job


class Hosts:
    """One start of a job, on hosts that are agents of this machine."""

    def __init__(self, server: TorchrunServer, job: Path, ranks: int, counts: Path) -> None:
        self.ranks, self.counts, self.run = ranks, counts, job.with_name(f"{job.stem}-run")
        counts.mkdir()
        hosts = min(HOSTS, max(1, ranks // 8))
        endpoint = f"127.0.0.1:{free_port()}"
        variables = os.environ | {
            "OMP_NUM_THREADS": "1",
            "TRAINWAY_RUN": str(self.run),
            "COUNTS": str(counts),
        }
        self.agents: list[Started] = []
        for host in range(hosts):
            meet = [f"--nnodes={hosts}", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}"]
            meet += [f"--rdzv-conf=is_host={host == 0},join_timeout=600", f"--nproc-per-node={ranks // hosts}"]
            # By default, an agent polls its ranks ten times per second.
            meet += ["--monitor-interval=2"]
            program = ["-m", "tests.training.counted_train", "--config", str(job)]
            self.agents.append(server.start([*meet, *program], variables))

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind so far, of all starts of this job."""
        path = self.run / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for line in lines if (event := json.loads(line))["event"] == kind]

    def stop_after(self, step: int, timeout: float) -> None:
        """Send SIGTERM to one rank of the last host, once the job has done so many steps."""
        end = time.monotonic() + timeout
        while not any(event["step"] >= step for event in self.events("step")):
            assert time.monotonic() < end and self.agents[0].poll() is None, self.agents[0].communicate(1)[0]
            time.sleep(0.1)
        ranks = Path(f"/proc/{self.agents[-1].pid}/task/{self.agents[-1].pid}/children").read_text().split()
        os.kill(int(ranks[-1]), signal.SIGTERM)

    def counted(self, timeout: float) -> Counted:
        """Wait until the job ends without an error, and return what its ranks had open."""
        said = [agent.communicate(timeout)[0] for agent in self.agents]
        failed = [text for agent, text in zip(self.agents, said, strict=True) if agent.returncode]
        assert not failed, f"{len(failed)} hosts failed, and the first said: {failed[0]}"
        found = [json.loads((self.counts / f"{rank}.json").read_text()) for rank in range(self.ranks)]
        return Counted(
            ranks=self.ranks,
            sockets=max(each["sockets"] for each in found[1:]),
            sockets_of_rank_0=found[0]["sockets"],
            threads=max(each["threads"] for each in found),
            megabytes=round(statistics.median(each["megabytes"] for each in found), 1),
        )

    def kill(self) -> None:
        """End what still runs."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()


def rehearse(server: TorchrunServer, directory: Path, ranks: int, timeout: float = 900) -> Rehearsed:
    """Start a job of so many ranks, stop it after two steps, and start it again until its last step."""
    began = time.monotonic()
    job = job_of(directory, f"ranks-{ranks}", micro=GLOBAL_BATCH // ranks, shards=min(ranks, SHARDS))

    def start(number: int) -> tuple[Counted, Hosts]:
        hosts = Hosts(server, job, ranks, directory / f"{job.stem}-start-{number}")
        try:
            if number == 1:
                hosts.stop_after(2, timeout)
            return hosts.counted(timeout), hosts
        finally:
            hosts.kill()

    first, _ = start(1)
    second, hosts = start(2)
    stopped, ended = hosts.events("end")
    (resumed,) = hosts.events("resumed")
    seconds = round(time.monotonic() - began, 1)
    return Rehearsed(first, second, stopped["step"], resumed["step"], ended["loss_hex"], seconds)


def main() -> None:
    """Rehearse each number of ranks, and print what was counted."""
    parser = argparse.ArgumentParser(prog="python -m tests.training.rehearsal", description=__doc__)
    parser.add_argument("ranks", type=int, nargs="+")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found = []
    # With glibc's defaults, each rank takes 20 MB more, for heaps of its threads and memory that was freed.
    os.environ |= {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}
    with tempfile.TemporaryDirectory() as directory, torchrun_server() as server:
        for ranks in chosen.ranks:
            found.append(asdict(rehearse(server, Path(directory), ranks)))
            print(json.dumps(found[-1]), flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
