"""One step of the lifecycle scripts on a node, as the runner runs it."""

from __future__ import annotations

import subprocess

from tests.lifecycle_scripts.nodes import DOWNLOADED, RESOURCE_CONFIG, Lab, Node


def run_step(node: Node, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `steps/NAME.sh` has said, with the node's facts in its environment, and how it ended. What is given wins."""
    script = f"""
facts=$(python3 {DOWNLOADED}/node_facts.py {RESOURCE_CONFIG} {DOWNLOADED}/parameters.json) || exit
set -a
eval "$facts"
exec env "$@" bash {DOWNLOADED}/steps/{name}.sh 2>&1
"""
    there = {"NODE_ROOT": "", "SLURM_STARTED_BY": "script", **environment}
    given = [f"{variable}={value}" for variable, value in there.items()]
    return node.run("bash", "-c", script, "-", *given, check=False)


def keep_steps(lab: Lab, *names: str) -> None:
    """Delete all other steps on every node. Other tests cover these steps, which make the provisioning slower."""
    for node in lab.nodes.values():
        for step in (node.root / DOWNLOADED.lstrip("/") / "steps").glob("*.sh"):
            if step.stem not in names:
                step.unlink()
