"""node_facts.py as a module and as a program, and the files that it reads on a node."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

SCRIPT = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "node_facts.py"
spec = importlib.util.spec_from_file_location("node_facts", SCRIPT)
assert spec is not None and spec.loader is not None
node_facts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(node_facts)
SCHEMA = node_facts.read_schema()
GIVEN: dict[str, Any] = {
    "orchestrator": "hyperpod-slurm",
    "controller_group": "controller",
    "login_groups": ["login"],
    "fsx": {"dns_name": "fs-1.fsx", "mount_name": "abc", "mount_path": "/fsx", "mounted_by": "service"},
}
# As the reader returns them, with every key.
PARAMETERS = node_facts.completed(GIVEN, SCHEMA)


def instance(name: str, address: str) -> dict[str, str]:
    return {
        "InstanceName": name,
        "AgentIpAddress": "172.16.0.9",
        "CustomerIpAddress": address,
        "InstanceId": "i-0123456789abcdef0",
    }


SLURM = {
    "ClusterConfig": {"ClusterArn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc", "ClusterName": "atlas"},
    "ClusterType": "Slurm",
    "SlurmConfig": {"PrimaryControllerIp": "10.0.0.10", "SecondaryControllerIps": []},
    "InstanceGroups": [
        {"Name": "controller", "InstanceType": "ml.m5.xlarge", "Instances": [instance("controller-1", "10.0.0.10")]},
        {"Name": "login", "InstanceType": "ml.m5.xlarge", "Instances": [instance("login-1", "10.0.0.20")]},
        {
            "Name": "train",
            "InstanceType": "ml.p5en.48xlarge",
            "Instances": [instance("train-1", "10.0.1.1"), instance("train-2", "10.0.1.2")],
        },
        {"Name": "scaled-to-none", "InstanceType": "ml.g5.xlarge", "Instances": None},
        {"Name": "absent", "InstanceType": "ml.g5.xlarge"},
    ],
}


def refusal(tmp_path: Path, document: Any, name: str = "parameters.json") -> str:
    """What the reader prints of a file that it refuses: one line."""
    config, parameters = tmp_path / "resource_config.json", tmp_path / "parameters.json"
    config.write_text(json.dumps(of_this_machine(SLURM)))
    (tmp_path / name).write_text(json.dumps(document))
    done = run(config, parameters)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    return done.stderr


def run(config: Path, parameters: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FACTS_WAIT_SECONDS": "0", **environment}
    command = [sys.executable, str(SCRIPT), str(config), str(parameters)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def of_this_machine(config: dict[str, Any]) -> dict[str, Any]:
    """The resource config with this machine's address for the node train-1's."""
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[0]
    return json.loads(json.dumps(config).replace('"10.0.1.1"', json.dumps(own)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
