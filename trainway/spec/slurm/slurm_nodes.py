"""Slurm settings of a cluster's nodes: facts about their instance types, and keys of slurm.conf."""

from __future__ import annotations

from pydantic import Field

from trainway.spec.capacity.group_types import all_types
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.teams.team_data import has_team_roles_on_nodes
from trainway.spec.values import Section

# Slurm's name of a device by vendor, which is fixed for NVIDIA (https://slurm.schedmd.com/gres.html, read 2026-11-22),
# and the file of the first device without its number.
GRES = {"nvidia": ("gpu", "/dev/nvidia"), "neuron": ("neuron", "/dev/neuron")}


class Gres(Section):
    """The accelerators of an instance type, as gres.conf has them."""

    name: str
    type: str
    count: int
    device: str = Field(description="The file of the first device without its number.")


class TypeOnNodes(Section):
    """The facts that Slurm nodes have about an instance type."""

    cpus: int
    memory_mib: int = Field(description="Memory as EC2 states it, in MiB.")
    gres: Gres | None = None
    efa: int = Field(0, description="EFA interfaces of a node.")


class DatabaseOnNodes(Section):
    """The facts that controllers have about the organization's accounting database."""

    endpoint: str
    port: int
    name: str | None = Field(None, description="The schema; null: slurm_acct_db.")
    secret: str = Field(description="ARN of the secret with the password, and with the user if `user` is null.")
    user: str | None = Field(None, description="The user, which AWS's provisioning_parameters.json names.")


class SlurmOnNodes(Section):
    """What the nodes of a Slurm cluster know of Slurm."""

    instance_types: dict[str, TypeOnNodes] = Field(
        default_factory=dict, description="By HyperPod's name of the type.", json_schema_extra={"default": {}}
    )
    health_checks: bool = False
    login_needs_job: bool = False
    job_walls: bool | None = Field(False, description="null: on nodes that can have them.")
    private_tmp: bool = False
    team_roles: bool = Field(False, description="Whether each job has the role of its team, and not that of the node.")
    settings: dict[str, str] = Field(
        default_factory=dict, description="Keys of slurm.conf.", json_schema_extra={"default": {}}
    )
    accounting_database: DatabaseOnNodes | None = None


def slurm_nodes(platform: Platform, catalogue: Catalogue) -> SlurmOnNodes:
    """Return the Slurm settings of a platform's nodes."""
    slurm = platform.slurm_or_default
    types = {str(each.hyperpod_name): _facts(each) for each in all_types(platform, catalogue) if each.hyperpod_name}
    database = slurm.accounting_database
    return SlurmOnNodes(
        instance_types=types,
        health_checks=slurm.health_checks,
        login_needs_job=slurm.login_needs_job,
        job_walls=slurm.job_walls,
        private_tmp=slurm.private_tmp,
        team_roles=has_team_roles_on_nodes(platform),
        settings=dict(slurm.settings),
        accounting_database=DatabaseOnNodes(**database.model_dump()) if database else None,
    )


def _facts(instance: Instance) -> TypeOnNodes:
    gres = None
    if accelerator := instance.accelerator:
        name, device = GRES[accelerator.vendor]
        kind = accelerator.name.lower().replace(" ", "-")
        gres = Gres(name=name, type=kind, count=accelerator.count, device=device)
    memory = instance.memory_gib * 1024
    return TypeOnNodes(cpus=instance.vcpus, memory_mib=memory, gres=gres, efa=instance.efa_interfaces)
