"""From a fresh clone, three commands run a file that was never seen before on two nodes of a real Slurm.

The clone is this checkout, in which `make setup` has run. The platform is a hand-off in the emulated AWS. A virtual
environment stands in for the training image, because no registry is here.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from pydantic import BaseModel

from emulator import Emulator, running
from tests.launch.conftest import make_hand_off
from tests.launch.slurm.machines import CONTROLLER, Machines, machines, missing
from tests.launch.slurm.requests import IMAGE, on_slurm
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.spec.deployed_file import deployed_file, deployed_file_name
from trainway.spec.handoff import Association, BuiltImage
from trainway.spec.handoff_names import image_parameter_name, parameter_name
from trainway.spec.loader import load_platform

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "programs.md").read_text()
TRAIN = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ranks = torch.ones(1)
dist.all_reduce(ranks)
print(f"rank {dist.get_rank()} counts {ranks.item():.0f} ranks", flush=True)
dist.destroy_process_group()
"""
# Connects whoever comes to the first address with the second. An address with a slash is a Unix socket, which processes
# of all networks reach.
RELAY = """\
import asyncio, sys

async def opened(address):
    if "/" in address:
        return await asyncio.open_unix_connection(address)
    return await asyncio.open_connection(*address.split(":"))

async def pump(source, sink):
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()

async def serve(reader, writer):
    there = await opened(sys.argv[2])
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer), return_exceptions=True)

async def main(address):
    start = asyncio.start_unix_server if "/" in address else asyncio.start_server
    where = [address] if "/" in address else address.split(":")
    async with await start(serve, *where) as server:
        await server.serve_forever()

asyncio.run(main(sys.argv[1]))
"""


@contextmanager
def relays(cluster: Machines, endpoint: str) -> Iterator[None]:
    """Let each node reach the emulator at the address that it has here."""
    socket, address = str(cluster.directory / "emulator.socket"), endpoint.removeprefix("http://")
    relay = [sys.executable, "-c", RELAY]
    commands = [[*relay, socket, address]]
    commands += [cluster.on(node, *relay, address, socket) for node in cluster.nodes]
    started = [subprocess.Popen(command, cwd="/") for command in commands]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def with_aws_on_nodes(cluster: Machines, emulator: Emulator, *more: str) -> None:
    """Let jobs ask the emulator, in place of the role of the nodes, with more variables. Requires `relays`."""
    credentials = cluster.shared / "credentials"
    credentials.write_text("[default]\naws_access_key_id=emulator\naws_secret_access_key=emulator\n")
    told = [f"AWS_ENDPOINT_URL={emulator.endpoint}", f"AWS_SHARED_CREDENTIALS_FILE={credentials}"]
    sbatch = shlex.join(cluster.on(CONTROLLER, "env", *told, *more, "sbatch"))
    (cluster.commands / "sbatch").write_text(f'#!/bin/sh\nexec {sbatch} "$@"\n')


def deployed(emulator: Emulator, platform_file: Path, mount: str) -> None:
    """Create what a launch requires of a deploy: the bucket, the hand-off, the image, and the platform file."""
    platform = load_platform(platform_file)
    changes = {"platform": platform.name, "region": platform.region, "teams": ()}
    hand_off = on_slurm(make_hand_off(), mount=mount).model_copy(update=changes)
    runs = Association(path="/runs", s3=f"s3://{hand_off.bucket}/runs")
    file_system = hand_off.mounted
    associations = {"associations": (*file_system.associations, runs)}
    hand_off = hand_off.model_copy(update={"file_system": file_system.model_copy(update=associations)})
    keys = {"aws_access_key_id": "emulator", "aws_secret_access_key": "emulator"}
    here = {"endpoint_url": emulator.endpoint, "region_name": platform.region, **keys}
    where = {"LocationConstraint": platform.region}
    boto3.client("s3", **here).create_bucket(Bucket=hand_off.bucket, CreateBucketConfiguration=where)  # type: ignore[call-overload]
    built = BuiltImage(uri=hand_off.image_uri, pinned=IMAGE)
    names: dict[str, BaseModel] = {
        parameter_name(platform.name): hand_off,
        image_parameter_name(platform.name): built,
        deployed_file_name(platform.name): deployed_file(platform),
    }
    for name, model in names.items():
        client = boto3.client("ssm", **here)  # type: ignore[call-overload]
        client.put_parameter(Name=name, Type="String", Tier="Advanced", Value=model.model_dump_json())


@pytest.mark.exhaustive
def test_an_unseen_file_runs_on_two_nodes_after_three_commands(tmp_path: Path) -> None:
    (block,) = re.findall(r"<!-- three commands -->\n\n?```bash\n(.*?)```", PAGE, re.DOTALL)
    first, *others = block.splitlines()
    assert first == "make setup" and re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(others) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text(TRAIN)
    (tmp_path / "trainway").symlink_to(ROOT)
    named = re.search(r"--platform ~/trainway/(\S+)", others[1])
    assert named is not None
    platform_file = ROOT / named[1]
    region = load_platform(platform_file).region
    with machines(["n1", "n2"]) as cluster, running(region=region) as emulator, relays(cluster, emulator.endpoint):
        deployed(emulator, platform_file, str(cluster.shared))
        with_aws_on_nodes(cluster, emulator)
        path = f"{cluster.commands}:{os.environ['PATH']}"
        script = "\n".join([*others[:-1], f"{others[-1]} --environment {sys.prefix}"])
        launched = subprocess.run(
            ["bash", "-euc", script],
            env={**emulator.child_environment(), "HOME": str(tmp_path), "PATH": path},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert launched.returncode == 0, launched.stderr
        run = cluster.shared / "runs" / launched.stdout.split()[-1]
        log = run / "logs" / "slurm.log"
        wait_for(f"it ends, {log}", (run / "outcome").exists, 200)
        assert (run / "outcome").read_text() == "succeeded\n", log.read_text()[-3000:]
        said = "".join(file.read_text() for file in run.glob("logs/start-0/*/*/attempt_0/*/stdout.log"))
        assert re.findall(r"rank \d counts \d ranks", said) != []
        assert set(re.findall(r"rank \d counts (\d) ranks", said)) == {"2"}
