"""Forwarding a port of this machine to a node of a job."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from trainway.launch.slurm import relay
from trainway.launch.slurm.cluster import slurm_is_here
from trainway.launch.slurm.session import session
from trainway.launch.slurm.watch import beside, node_name
from trainway.launch.target.protocol import Handle

# https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html
# (Starting a session, port forwarding; read 2026-11-23)
_TO_NODE = "AWS-StartPortForwardingSession"
# With `-m`, Python would warn that this package has imported the module already.
_RELAY = f"from {relay.__name__} import main; main()"


def forward(handle: Handle, node: int, port: int, local_port: int) -> Sequence[str]:
    """Return the command that forwards a port of this machine's loopback interface to a node of the run.

    On a node that has Slurm, each connection is a process on the node beside those of the run. From any other machine,
    a session on the node connects. Both reach the loopback interface of the node. No other host reaches a port of a
    run, with the walls around jobs.

    Raises UsageError where the run does not run, or not on so many nodes.
    """
    what = f"port {port} on node {node} of job {handle['job']} cannot be forwarded"
    name = node_name(handle, node, what)
    if slurm_is_here():
        srun = ("srun", *beside(handle["job"], name), "--unbuffered", "--quiet")
        return (sys.executable, "-c", _RELAY, str(local_port), str(port), "--", *srun)
    parameters = {"portNumber": [str(port)], "localPortNumber": [str(local_port)]}
    return session(handle, _TO_NODE, json.dumps(parameters), what=what, node=name)
