"""A small prepared corpus, the job that learns it, and ways to run that job for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from tests.moto_server import moto_server, reset
from tests.training.torchrun_server import Started, TorchrunServer, torchrun_server
from training.data.corpus import python_standard_library
from training.data.shards import INDEX

STEPS = 16
# Half of the layers of the preset, and little to compute in each.
SMALL_VARIANT = {"layers": 2, "hidden": 32, "heads": 2, "key_value_heads": 2, "feed_forward": 64}


@dataclass(frozen=True)
class Run:
    """One `torchrun … -m training.train`, not waited for yet."""

    process: subprocess.Popen[str] | Started
    directory: Path

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind in metrics.jsonl so far, without a line that is being written."""
        path = self.directory / "metrics.jsonl"
        lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
        return [event for line in lines if (event := json.loads(line))["event"] == kind]

    def finish(self) -> str:
        """Waits for success; returns what was printed."""
        output, _ = self.process.communicate(timeout=1800)
        assert self.process.returncode == 0, output
        return output

    def workers(self) -> list[int]:
        """Process ids of the ranks. There are none while torchrun restarts them."""
        children = children_of(self.process.pid)
        # The agent of `training.elastic` has a process of which the ranks are forks, and one that tracks resources.
        helpers = [pid for pid in children if b"from multiprocessing." in command_of(pid)]
        forks = [fork for pid in helpers for fork in children_of(pid)]
        return [pid for pid in (*children, *forks) if pid not in helpers]


def children_of(pid: int) -> list[int]:
    """Return the process ids of the children of a process."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(child) for child in listed.stdout.split()]


def command_of(pid: int) -> bytes:
    """Return the words of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


Launch = Callable[..., Run]
StartRank = Callable[..., subprocess.Popen[str] | Started]


@pytest.fixture(scope="session")
def torchrun() -> Iterator[TorchrunServer]:
    """Starts torchrun without importing torch each time."""
    with torchrun_server() as server:
        yield server


@contextmanager
def launching(directory: Path, server: TorchrunServer | None) -> Iterator[Launch]:
    """Starts jobs on gloo processes of this machine, with their files in a directory; at the end none still runs.

    Without a server, torchrun is started as a program. Its ranks then meet in the store of the agent, whose port the
    agent holds. A port for a store of rank 0 would be free for seconds, until the rank has imported PyTorch.
    """
    started: list[Run] = []

    def start(
        job: dict[str, Any] | Path,
        processes: int,
        *arguments: str,
        name: str = "run",
        rendezvous: tuple[str, ...] = ("--standalone",),
        module: str = "training.train",
        network: str | None = None,
        elastic: bool = False,
        **environment: str,
    ) -> Run:
        config = job if isinstance(job, Path) else directory / f"{name}-{len(started)}.yaml"
        if not isinstance(job, Path):
            config.write_text(yaml.safe_dump(job))
        command = [*rendezvous, "--nproc-per-node", str(processes), "-m", module, "--config", str(config)]
        variables = os.environ | {
            "OMP_NUM_THREADS": "1",
            "TRAINWAY_RUN": str(directory / name),
            "TRAINWAY_MEMORY": str(directory / "memory"),
            "XDG_CACHE_HOME": str(directory / "cache"),
        }
        variables |= environment
        process: subprocess.Popen[str] | Started
        if elastic:
            alone = "--standalone" in rendezvous and "PET_RDZV_ENDPOINT" not in environment
            variables |= {"TRAINWAY_JOB": str(config), "PET_NPROC_PER_NODE": str(processes)}
            variables |= {"PET_STANDALONE": "1"} if alone else {}
            command = ["-m", "training.elastic"]
        if server and elastic:
            process = server.start_python([*command, *arguments], variables, network)
        elif server:
            process = server.start([*command, *arguments], variables, network)
        else:
            process = subprocess.Popen(
                [sys.executable, *(() if elastic else ("-m", "torch.distributed.run")), *command, *arguments],
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        started.append(Run(process, directory / name))
        return started[-1]

    yield start
    for run in started:
        if run.process.poll() is None:
            for pid in run.workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
            run.process.kill()
            run.process.wait()


@pytest.fixture
def launch(tmp_path: Path, torchrun: TorchrunServer) -> Iterator[Launch]:
    """Starts a job on some processes; the files of its run are in tmp_path."""
    with launching(tmp_path, torchrun) as start:
        yield start


@pytest.fixture
def launch_program(tmp_path: Path) -> Iterator[Launch]:
    """Like `launch`, but torchrun and its ranks are programs of their own, as everywhere but in tests."""
    with launching(tmp_path, None) as start:
        yield start


@pytest.fixture(params=["fork", pytest.param("program", marks=pytest.mark.exhaustive)])
def launch_either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launch]:
    """Return the function of `launch`, and in `make test-all` also that of `launch_program`."""
    server = request.getfixturevalue("torchrun") if request.param == "fork" else None
    with launching(tmp_path, server) as start:
        yield start


@pytest.fixture(params=["fork", pytest.param("program", marks=pytest.mark.exhaustive)])
def start_rank(request: pytest.FixtureRequest) -> Iterator[StartRank]:
    """Starts `python -m training.train --config FILE` as one rank without torchrun; at the end none still runs."""
    started: list[subprocess.Popen[str] | Started] = []

    def start(config: Path, **environment: str) -> subprocess.Popen[str] | Started:
        arguments, variables = ["-m", "training.train", "--config", str(config)], os.environ | environment
        if request.param == "fork":
            started.append(request.getfixturevalue("torchrun").start_python(arguments, variables))
        else:
            command = [sys.executable, *arguments]
            program = subprocess.Popen(
                command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            started.append(program)
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def corpus_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Token shards of some of the standard library, in several files."""
    from training.prepare import prepare

    directory = tmp_path_factory.mktemp("corpus")
    prepare(python_standard_library(limit_bytes=300_000), str(directory), vocabulary=384, shard_bytes=75_000)
    return directory


@pytest.fixture
def own_corpus(corpus_directory: Path, tmp_path: Path) -> Path:
    """A copy of the corpus that a test can damage."""
    return Path(shutil.copytree(corpus_directory, tmp_path / "corpus"))


@pytest.fixture
def old_corpus(own_corpus: Path) -> Path:
    """The corpus as it was prepared before shards had checksums of their blocks."""
    index = json.loads((own_corpus / INDEX).read_text())
    for shard in index["shards"]:
        del shard["checksums"]
    (own_corpus / INDEX).write_text(json.dumps(index))
    for path in own_corpus.glob("*.crc32"):
        path.unlink()
    return own_corpus


@pytest.fixture(scope="session")
def variant() -> dict[str, Any]:
    """The changes to the preset `tiny` in `job` and `untouched`."""
    return SMALL_VARIANT


@pytest.fixture
def job(corpus_directory: Path, variant: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """A job of some seconds; the tests change what they are about."""
    return job_of(corpus_directory, variant, tmp_path / "checkpoints")


@pytest.fixture(scope="session")
def untouched(
    corpus_directory: Path,
    variant: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    torchrun: TorchrunServer,
) -> str:
    """The final loss of `job` on two ranks, run without interruption, as exact hexadecimal."""
    directory = tmp_path_factory.mktemp("untouched")
    return final_loss(job_of(corpus_directory, variant, directory / "checkpoints"), directory, torchrun)


def final_loss(job: dict[str, Any], directory: Path, server: TorchrunServer) -> str:
    """Run a job on two ranks without interruption, and return its final loss as exact hexadecimal."""
    with launching(directory, server) as start:
        run = start(job, 2)
        run.finish()
    (end,) = run.events("end")
    assert end["step"] == job["steps"]
    return str(end["loss_hex"])


def job_of(corpus: Path, variant: dict[str, Any], checkpoints: Path) -> dict[str, Any]:
    """The document of a small job file."""
    return {
        "name": "exact",
        "model": "tiny",
        "variant": variant,
        "data": {"train": str(corpus), "sequence_length": 32},
        "precision": "fp32",
        "batch": {"global": 8, "micro": 2},
        "steps": STEPS,
        "optimizer": {"learning_rate": 0.002},
        "schedule": {"warmup_steps": 4},
        "checkpoint": {"every": 4, "keep": 2, "location": str(checkpoints)},
    }


@pytest.fixture
def without_kernels() -> Iterator[None]:
    """Run what is compiled as it is written: compiling an optimizer takes a minute."""
    import torch

    torch.compiler.set_stance("force_eager")
    yield
    torch.compiler.set_stance("default")


@pytest.fixture
def one_rank() -> Iterator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 server on the loopback.

    With a server for each test, a write waited for 74 to 116 s in five of seven runs (2026-11-26), and never with one
    server for all. The likely cause is that the AWS Common Runtime avoids an address after a connection to it failed.
    """
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The location of a bucket in an S3 server on the loopback, which this process and its children use."""
    from training.hosts import location_files

    for name, value in {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    location_files.s3_client.cache_clear()
    boto3.client("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    yield "s3://data"
    reset(s3_endpoint)
    location_files.s3_client.cache_clear()


@pytest.fixture(params=["disk", "s3"])
def location(request: pytest.FixtureRequest) -> str:
    """Return a location for checkpoints, on disk and in S3."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/checkpoints/x"
    return str(request.getfixturevalue("tmp_path") / "checkpoints")
