"""Follow docs/job-journey.md block by block with the wheel, on two nodes of a real Slurm cluster.

The hand-off is in an emulated AWS. The virtual environment of the tests stands in for the training image, because no
registry is here, and a copy of files for FSx's export to the bucket.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import boto3
import pytest

from emulator import Emulator, running
from tests.launch.conftest import BUCKET
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.test_three_commands import deployed, relays, with_aws_on_nodes
from tests.recipes.page import environment_of_reader, follow, session
from tests.synthesis import ROOT
from tests.wheel_environment import build_wheel, keep_away, provide, site_of
from trainway.new_platform.text import platform_text
from trainway.new_platform.wishes import Wishes
from trainway.spec.sections.orchestrator import Orchestrator

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
PAGE = (ROOT / "docs" / "job-journey.md").read_text(encoding="utf-8")
ATLAS = Wishes("atlas", "g5.8xlarge", 2, Orchestrator.HYPERPOD_SLURM, "us-west-2", "on-demand", None)


def export_runs(cluster: Machines, emulator: Emulator) -> None:
    """Copy the directories of runs to the bucket."""
    keys = {"aws_access_key_id": "emulator", "aws_secret_access_key": "emulator"}
    s3 = boto3.client("s3", endpoint_url=emulator.endpoint, region_name=emulator.region, **keys)  # type: ignore[call-overload]
    for file in (cluster.shared / "runs").rglob("*"):
        if file.is_file():
            s3.upload_file(str(file), BUCKET, str(file.relative_to(cluster.shared)))


@pytest.mark.exhaustive
def test_following_the_page_gives_what_it_promises(tmp_path: Path) -> None:
    home, mine = tmp_path / "home", tmp_path / "mine"
    mine.mkdir()
    platform_file = tmp_path / "platform.yaml"
    platform_file.write_text(platform_text(ATLAS))
    with machines(["n1", "n2"]) as cluster, running() as emulator, relays(cluster, emulator.endpoint):
        deployed(emulator, platform_file, str(cluster.shared))
        with_aws_on_nodes(cluster, emulator)
        path = f"{cluster.commands}:{Path(sys._base_executable).parent}:/usr/bin:/bin"  # type: ignore[attr-defined]
        environment = environment_of_reader(home, path) | emulator.environment() | {"PIP_NO_INDEX": "1"}
        build_wheel(home)
        in_one_shell = session(mine, environment, tmp_path / "state")

        def shell(command: str, answers: str) -> tuple[int, str]:
            if command.startswith("pip install"):
                provide(requires("trainway") or (), site_of(home / "trainway"))
                keep_away(site_of(home / "trainway"))
            if command.startswith("trainway copy"):
                export_runs(cluster, emulator)
            return in_one_shell(command.replace("--nodes", f"--environment {sys.prefix} --nodes"), answers)

        commands = follow(PAGE, mine, shell)
    assert {each.split()[1] for each in commands if each.startswith("trainway ")} >= {"connect", "explain", "resume"}
    (loads,) = re.findall(r"^```python\n(from transformers .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    told = f"{loads}\nprint(model.config.vocab_size, sum(each.numel() for each in model.parameters()))"
    loaded = subprocess.run([sys.executable, "-c", told], cwd=mine, capture_output=True, text=True, check=False)
    assert loaded.stdout.startswith("256 "), loaded.stderr
