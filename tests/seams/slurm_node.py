"""A node of a Slurm platform and its controller, as the lifecycle scripts leave them. systemd and Slurm run on both.

The platform is the stock Slurm example, with everything else that a platform file can ask of a node. The two are
started once per test process, when the first reader asks for them.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from delivery.render_manifests import render
from tests.lifecycle_scripts.nodes import Lab, missing, nodes
from tests.seams.shapes import IN_ONE_REGION
from tests.synthesis import EXAMPLES, ROOT
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.slurm.node_parameters import node_parameters
from trainway.spec.slurm.slurm_accounts import role_variable, slurm_accounts
from trainway.spec.slurm.slurm_users import slurm_users

EXAMPLE = ROOT / "examples" / "hyperpod-slurm-p5en.yaml"
SHAPES = Path(__file__).with_name("slurm_shapes.yaml")
BUCKET = "s3://platform/lifecycle_scripts"
GROUPS = {"controller": ["ctl"], "train": ["n1"]}
TYPES = {"train": "ml.p5en.48xlarge"}


@cache
def slurm_platforms() -> dict[str, Platform]:
    """Return every example on Slurm and every shape of slurm_shapes.yaml, by name."""
    found = {file.stem: load_platform(file) for file in EXAMPLES}
    with tempfile.TemporaryDirectory() as directory:
        for name, shape in yaml.safe_load(SHAPES.read_text(encoding="utf-8")).items():
            file = Path(directory) / f"{name}.yaml"
            file.write_text(yaml.safe_dump({"name": name, **IN_ONE_REGION, "orchestrator": "hyperpod-slurm", **shape}))
            found[name] = load_platform(file)
    return {name: each for name, each in found.items() if each.orchestrator.value == "hyperpod-slurm"}


def parameters_of(platform: Platform) -> dict[str, Any]:
    """Return parameters.json of a platform's nodes, for a node that mounts Lustre and runs no containers."""
    deployed = {
        "TRAINWAY_DOCUMENTS_S3_URI": BUCKET,
        "TRAINWAY_FSX_DNS_NAME": "fs-1.fsx.us-west-2.amazonaws.com",
        "TRAINWAY_FSX_MOUNT_NAME": "abc",
        "TRAINWAY_HOME_DNS_NAME": "fs-2.fsx.us-west-2.amazonaws.com",
    }
    parameters: dict[str, Any] = json.loads(
        render(node_parameters(platform, load_catalogue()).model_dump_json(), deployed)
    )
    parameters["fsx"]["mounted_by"] = "script"
    return parameters | {"containers": "none", "homes": None, "login_groups": []}


def roles_of(platform: Platform) -> dict[str, str]:
    """Return the environment variables that give the delivery the ARN of each team's role."""
    return {role_variable(team.name): f"arn:aws:iam::123456789012:role/{team.name}" for team in platform.teams}


@cache
def provisioned() -> Lab:
    """Return the controller `ctl` and the compute node `n1`. Skips the test where no node can be started."""
    if why := missing():
        pytest.skip(why)
    platform = _with_everything()
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    directory = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="trainway-seams-")))
    lab = until_the_end.enter_context(nodes(directory, GROUPS, parameters=parameters_of(platform), types=TYPES))
    bucket = lab.s3 / BUCKET.removeprefix("s3://")
    bucket.mkdir(parents=True)
    (bucket / "slurm-accounts.json").write_text(render(json.dumps(slurm_accounts(platform)), roles_of(platform)))
    (bucket / "slurm-users.json").write_text(json.dumps(slurm_users(platform)))
    for node in lab.nodes.values():
        # Devices that are there and do nothing.
        node.run("bash", "-c", "for number in {0..7}; do mknod /dev/nvidia$number c 1 3; done")
    for name, done in lab.provision(timeout=1800, DIRECTORY_WAIT_SECONDS="1").items():
        assert done.returncode == 0, f"{name}: {done.stdout[-4000:]}{os.linesep}{done.stderr[-1000:]}"
    return lab


def _with_everything() -> Platform:
    """Return the example with more to write. Slurm believes that this machine has the CPUs of a P5en node."""
    document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    slurm = document["slurm"]
    slurm["users"][0]["sudo"] = True
    slurm |= {
        "login_needs_job": True,
        # Drains a node without EFA devices.
        "health_checks": False,
        "settings": {"SlurmdParameters": "config_overrides"},
        "directory": {"uri": "ldaps://ldap.example.com", "base": "dc=example,dc=com"},
    }
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "platform.yaml"
        file.write_text(yaml.safe_dump(document))
        return load_platform(file)
