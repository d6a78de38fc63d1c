"""Sessions of AWS Systems Manager on nodes of HyperPod, such as one that runs a line of bash on the login node.

The form of the target is in AWS's own script for it (read 2026-11-21):
https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/easy-ssh.sh

A session that is not interactive splits its command as a shell would, runs it without one, gives stdout and stderr as
one, and tells no exit status; so the line travels in base64, and so does its answer.
https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/shell/shell_unix.go (read 2026-11-21)
"""

from __future__ import annotations

import base64
import binascii
import errno
import functools
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from trainway.launch.registry.logins import login_on
from trainway.spec.errors import usage_error
from trainway.spec.sections.slurm import CONTROLLER_GROUP, LOGIN_GROUP

IMAGE_USER = "ubuntu"
"""The user that HyperPod's image brings."""
# What the longest value of StartSession's parameters may have:
# https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_StartSession.html (read 2026-11-21)
_MOST_CHARACTERS = 65535

_ANSWER = re.compile(rb"trainway-answer (\d+) :([A-Za-z0-9+/=]*) :([A-Za-z0-9+/=]*)")
# What login shells say comes before it.
_BEGINS = "trainway-begins"
# The user's login shell, so that the line runs as if it had been typed.
_WRAPPER = """
out=$(mktemp) errors=$(mktemp)
base64 -d <<<{line} | sudo --login --user={user} bash -s >"$out" 2>"$errors"
echo "trainway-answer ${{PIPESTATUS[1]}} :$(base64 -w 0 "$out") :$(base64 -w 0 "$errors")"
rm -f "$out" "$errors"
"""


def on_login_node(line: str, cluster: Mapping[str, str], *, what: str) -> tuple[int, str, str]:
    """Return a line's exit status, output, and errors. Raises UsageError, which begins with `what`, if none comes."""
    user = shlex.quote(login_for(cluster, what=what))
    wrapper = _WRAPPER.format(line=_encoded(f"echo {_BEGINS}\n{line}"), user=user)
    command = f"bash -c 'base64 -d <<<{_encoded(wrapper)} | bash'"
    if len(command) > _MOST_CHARACTERS:
        why = f"it takes {len(command)} characters, and a session carries {_MOST_CHARACTERS}"
        raise usage_error(what, why=why, fix="launch on the login node")
    said = _in_terminal(session(cluster, "AWS-StartNonInteractiveCommand", commands(command), what=what))
    found = _ANSWER.search(said)
    if found is None:
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        fix = "`aws ssm start-session` to the same node shows whether sessions work; the command may have run"
        raise usage_error(what, why=f"the session on {cluster['cluster']} gave no answer: {last[0]}", fix=fix)
    status, output, errors = found.groups()
    return int(status), _decoded(output).partition(f"{_BEGINS}\n")[2], _decoded(errors)


def login_for(cluster: Mapping[str, str], *, what: str) -> str:
    """Return the login name for a session on a cluster: the one that this person has said for it.

    A handle of a run is from its record, and so the launcher of the run, or whoever wrote the record, chose the user in
    it. Raises UsageError, which begins with `what`, if this person has said none, and the handle has another user than
    that of HyperPod's image, which is this person's default, too.
    """
    if login := login_on(cluster["arn"]):
        return login
    if cluster["user"] == IMAGE_USER:
        return IMAGE_USER
    why = f"your login name on {cluster['cluster']} is not known, and the run is of the user {cluster['user']}"
    fix = "name it once with `trainway connect PLATFORM --user NAME`, or use the login node"
    raise usage_error(what, why=why, fix=fix)


def commands(command: str) -> str:
    """Return the parameters of a session that runs a command."""
    return json.dumps({"command": [command]})


def session(
    cluster: Mapping[str, str], document: str, parameters: str, *, what: str, node: str | None = None
) -> tuple[str, ...]:
    """Return the command line that starts a session on the login node, or on the controller without a login node.

    `document` is the session's document, and `parameters` are those of the document as JSON. `node` is Slurm's name of
    a compute node, on which the session starts instead.
    """
    for program, fix in (
        ("aws", "install the AWS CLI, or launch on the login node"),
        ("session-manager-plugin", "install the Session Manager plugin of the AWS CLI, or launch on the login node"),
    ):
        if shutil.which(program) is None:
            raise usage_error(what, why=f"neither sbatch nor {program} is installed on this machine", fix=fix)
    group, instance = _node(cluster["cluster"], cluster["region"], node)
    identifier = cluster["arn"].rpartition("/")[2]
    target = f"sagemaker-cluster:{identifier}_{group}-{instance}"
    options = {"region": cluster["region"], "target": target, "document-name": document}
    return (
        "aws",
        "ssm",
        "start-session",
        *(f"--{key}={value}" for key, value in options.items()),
        "--parameters",
        parameters,
    )


def _node(cluster: str, region: str, name: str | None) -> tuple[str, str]:
    """Return the group and the instance ID of a compute node, or of the login node or the controller without a name."""
    nodes = [node for node in _nodes(cluster, region) if node["InstanceStatus"]["Status"] == "Running"]
    what = f"no session starts on {cluster} in {region}"
    if name:
        for node in nodes:
            if str(node.get("PrivateDnsHostname", "")).partition(".")[0] == name:
                return node["InstanceGroupName"], node["InstanceId"]
        why = f"no running node of the cluster has the host name {name}"
        raise usage_error(what, why=why, fix="use the login node, where Slurm reaches its nodes")
    for group in (LOGIN_GROUP, CONTROLLER_GROUP):
        for node in nodes:
            if node["InstanceGroupName"] == group:
                return group, node["InstanceId"]
    raise usage_error(what, why="neither a login node nor a controller is running", fix="see the cluster's events")


@functools.cache
def _nodes(name: str, region: str) -> list[dict[str, Any]]:
    """Return the nodes of a cluster, as ListClusterNodes lists them.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterNodeSummary.html (read 2026-11-29)
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"the nodes of {name} in {region} cannot be listed"
    try:
        client: Any = boto3.client("sagemaker", region_name=region)
        pages = client.get_paginator("list_cluster_nodes").paginate(ClusterName=name)
        return [node for page in pages for node in page["ClusterNodeSummaries"]]
    except (BotoCoreError, ClientError) as error:
        raise usage_error(what, why=str(error), fix="you need sagemaker:ListClusterNodes on the cluster") from None


def _in_terminal(command: tuple[str, ...]) -> bytes:
    """Return the output of a command in a terminal of its own.

    Without one the plug-in sometimes ends at once, with `Cannot perform start session: EOF`:
    1.architectures/5.sagemaker-hyperpod/tools/devops-agent/docs/hyperpod-mental-model.md of
    https://github.com/awslabs/awsome-distributed-ai (read 2026-11-21)
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True):
        os.close(theirs)
        said = bytearray()
        while chunk := _read(ours):
            said += chunk
    os.close(ours)
    return bytes(said)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        # How Linux says that nobody writes to it any more.
        if error.errno == errno.EIO:
            return b""
        raise


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(encoded: bytes) -> str:
    return binascii.a2b_base64(encoded).decode(errors="replace")
