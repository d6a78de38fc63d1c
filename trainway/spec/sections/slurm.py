"""`slurm`: the Slurm cluster."""

from __future__ import annotations

from pydantic import Field

from trainway.spec.fields import Section


class HeadNode(Section):
    """A node of the Slurm cluster that runs no jobs."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")


class Slurm(Section):
    """The Slurm cluster, for the orchestrator hyperpod-slurm."""

    controller: HeadNode = Field(default_factory=HeadNode, description="Runs slurmctld.")
    login: HeadNode | None = Field(default_factory=HeadNode, description="Where people log in; null for none.")
