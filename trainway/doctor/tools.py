"""The programs of this machine that launch jobs and deploy platforms."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trainway.preflight.finding import AccountFinding, error, note, warning
from trainway.spec.facts.kubernetes_versions import numbers
from trainway.spec.kubernetes.kubernetes_steps import deployed_version
from trainway.spec.platform import Platform

TOOLS: Final = "tools"
SECONDS: Final = 10
# pyproject.toml and the key `engines` of node_modules/aws-cdk/package.json have them (read 2026-11-25).
OLDEST_PYTHON: Final = (3, 11)
OLDEST_NODE: Final = 18
# https://kubernetes.io/releases/version-skew-policy/#kubectl (read 2026-11-25)
KUBECTL_SKEW: Final = 1
KUBECTL: Final = "install it: https://kubernetes.io/docs/tasks/tools/#kubectl"
AWS_CLI: Final = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
PLUGIN: Final = (
    "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
)


def tools(platform: Platform) -> Iterator[AccountFinding]:
    """Python, Node, kubectl, the AWS CLI, and its Session Manager plugin are there, in versions that can be used."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield error(
            f"Python is {sys.version.split()[0]}",
            why=f"Trainway requires {'.'.join(map(str, OLDEST_PYTHON))}",
            fix="run it with a newer Python",
        )
    yield from _node()
    if platform.orchestrator.is_kubernetes:
        yield from _kubectl(platform)
    yield from _sessions(platform)


def _node() -> Iterator[AccountFinding]:
    beside = Path(sys.executable).with_name("node")
    node = str(beside) if beside.exists() else shutil.which("node")
    said = _said(node, "--version") if node else None
    why = "the CDK deploys with Node; launching jobs needs none"
    if said is None:
        yield note("Node is not on PATH", why=why, fix="run `make setup` in a checkout, or install it for deploys")
    elif (found := re.search(r"v(\d+)", said)) and int(found[1]) < OLDEST_NODE:
        yield warning(f"Node is {said.strip()}", why=why, fix=f"install Node {OLDEST_NODE} or newer")


def _kubectl(platform: Platform) -> Iterator[AccountFinding]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        why = "trainway launch, logs, and stop call Kubernetes with it"
        yield error("kubectl is not on PATH", why=why, fix=KUBECTL)
        return
    said = _said(kubectl, "version", "--client", "--output=json")
    try:
        version = json.loads(said or "")["clientVersion"]
        ours = (int(version["major"]), int(version["minor"].rstrip("+")))
    except (KeyError, ValueError):
        yield warning("kubectl does not print its version", why="it may be broken", fix=KUBECTL)
        return
    theirs = numbers(deployed_version(platform))
    if abs(ours[1] - theirs[1]) > KUBECTL_SKEW:
        yield warning(
            f"kubectl is {ours[0]}.{ours[1]}, and the cluster {theirs[0]}.{theirs[1]}",
            why=f"kubectl supports clusters within {KUBECTL_SKEW} minor version of its own",
            fix=f"install kubectl {theirs[0]}.{theirs[1]}: https://kubernetes.io/docs/tasks/tools/#kubectl",
        )


def _sessions(platform: Platform) -> Iterator[AccountFinding]:
    """Yield what is missing for sessions on nodes, by which jobs are submitted to Slurm from other machines."""
    slurm = not platform.orchestrator.is_kubernetes
    if slurm and shutil.which("sbatch"):
        return
    told = error if slurm else note
    why = (
        "without Slurm on this machine, jobs are submitted by a session on the login node"
        if slurm
        else "the kubeconfig of EKS gets its tokens from it, and sessions reach a private endpoint"
    )
    if shutil.which("aws") is None:
        yield told("the AWS CLI is not on PATH", why=why, fix=f"install it: {AWS_CLI}")
    if shutil.which("session-manager-plugin") is None:
        yield told("the Session Manager plugin is not on PATH", why=why, fix=f"install it: {PLUGIN}")


def _said(*command: str) -> str | None:
    """Return what a program prints, or None if it fails or does not end."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout
