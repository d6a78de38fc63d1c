"""Check from the logs of a job's first minute whether it uses EFA.

A job without EFA does not fail. It is slow and costs as much. Jobs are launched with NCCL_EVIDENCE of
trainway/launch/program/environment.py, so that their logs show the transport.
"""

from __future__ import annotations

from trainway.spec.facts.instance import Instance
from trainway.verify.checks import network_results
from trainway.verify.facts import Expected, Facts
from trainway.verify.nccl_log import read_nccl_log
from trainway.verify.results import Result


def fabric_of_job(log: str, instance: Instance, nodes: int) -> tuple[Result, ...]:
    """Return the transport of each node, from the lines of all nodes.

    A node that uses TCP, or EFA without GPUDirect RDMA although its type supports it, fails. A job on one node is
    skipped.
    """
    facts = Facts(Expected(nodes, instance))
    return tuple(network_results(read_nccl_log(log), facts))
