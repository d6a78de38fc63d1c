"""`kubernetes`: the EKS cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.fields import Matches, Principal, Section


class SystemNodes(Section):
    """The CPU nodes that carry the cluster's own pods."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")
    count: int = Field(2, ge=1, description="Nodes; two survive the loss of one.")


class Kubernetes(Section):
    """The EKS cluster, for the orchestrators eks and hyperpod-eks."""

    version: Annotated[
        str, Matches(r"1\.\d\d", "it is not a Kubernetes minor version", 'write it in quotes, as in "1.34"')
    ] = Field("1.34", description="The Kubernetes minor version, in quotes.")
    system_nodes: SystemNodes = Field(default_factory=SystemNodes)
    admins: tuple[Principal, ...] = Field((), description="IAM roles and users that administer the cluster.")
    viewers: tuple[Principal, ...] = Field((), description="IAM roles and users that see all and change nothing.")
    queues: Literal["kueue", "none"] = Field(
        "kueue",
        description="What holds jobs until nodes are free, with the orchestrator eks; HyperPod has its own.",
    )
    mpi_operator: bool = Field(False, description="Jobs that mpirun starts, MPIJob v2beta1.")
