"""A machine without Slurm: sessions of Systems Manager, in stand-ins that do what the agent's source says, lead to one.

`aws` splits the command as a shell would, runs it without a shell, with stdout and stderr in one, and says nothing of
its exit status (https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/shell/shell_unix.go, read
2026-11-21). `sudo` gives the line the commands of a cluster.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import boto3

AWS = """#!{python}
import json, shlex, subprocess, sys

print("\\nStarting session with SessionId: ada-0123456789abcdef0", flush=True)
command = json.loads(sys.argv[sys.argv.index("--parameters") + 1])["command"][0]
subprocess.run(shlex.split(command), stderr=subprocess.STDOUT, check=False)
print("\\n\\nExiting session with sessionId: ada-0123456789abcdef0.\\n", flush=True)
"""
SUDO = """#!/bin/bash
[[ "$1 $2" == "--login --user={user}" ]] || exit 1
shift 2
echo "Welcome to your cluster"
PATH={commands}:/usr/bin:/bin exec "$@"
"""
REGION = "us-west-2"
THERE = ("base64", "bash", "cat", "mktemp", "rm")


def without_slurm(directory: Path, *, commands: Path = Path("/nonexistent"), user: str = "ubuntu") -> Path:
    """A directory that is all of PATH."""
    programs = directory / "programs"
    programs.mkdir()
    for name in THERE:
        (programs / name).symlink_to(str(shutil.which(name)))
    texts = {
        "aws": AWS.format(python=sys.executable),
        "session-manager-plugin": "#!/bin/sh\n",
        "sudo": SUDO.format(user=user, commands=shlex.quote(str(commands))),
    }
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return programs


def hyperpod(name: str, *groups: str) -> str:
    """Makes a cluster with a node in each group, in moto's account, and returns its ARN."""
    group = {
        "InstanceCount": 1,
        "ThreadsPerCore": 1,
        "InstanceType": "ml.m5.xlarge",
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts", "OnCreate": "on_create.sh"},
        "ExecutionRole": "arn:aws:iam::123456789012:role/nodes",
    }
    made = boto3.client("sagemaker", region_name=REGION).create_cluster(
        ClusterName=name, InstanceGroups=[{**group, "InstanceGroupName": each} for each in groups]
    )
    return str(made["ClusterArn"])
