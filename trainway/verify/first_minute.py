"""Whether a job that runs chose EFA: what its logs say in its first minute.

A job that does not use EFA does not fail; it is slow, and costs as much. Jobs are launched with NCCL_EVIDENCE of
trainway/launch/environment.py, so that their logs say which it is.
"""

from __future__ import annotations

from trainway.spec.facts.instance import Instance
from trainway.verify.checks import network_results
from trainway.verify.facts import Expected, Facts
from trainway.verify.nccl_log import read_nccl_log
from trainway.verify.results import Result


def fabric_of_job(log: str, instance: Instance, nodes: int) -> tuple[Result, ...]:
    """What the lines of all nodes together say of the way of the job's data, node by node.

    A node that uses TCP, or EFA without GPUDirect RDMA where the type has it, failed; a job on one node is skipped.
    """
    facts = Facts(Expected(nodes, instance))
    return tuple(network_results(read_nccl_log(log), facts))
