"""What the nodes of a Slurm cluster are told of Slurm: what their types have, and what goes into slurm.conf."""

from __future__ import annotations

from typing import Any

from trainway.spec.catalogue import Catalogue, Instance
from trainway.spec.group_types import all_types
from trainway.spec.platform import Platform

# By vendor: Slurm's name of such a device, which of NVIDIA's is fixed (https://slurm.schedmd.com/gres.html, read
# 2026-11-22), and the file of the first without its number.
GRES = {"nvidia": ("gpu", "/dev/nvidia"), "neuron": ("neuron", "/dev/neuron")}


def slurm_nodes(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Returns the document; types go by HyperPod's names, memory is in MiB as EC2 states it."""
    slurm = platform.slurm_or_default
    types = {str(each.hyperpod_name): _facts(each) for each in all_types(platform, catalogue) if each.hyperpod_name}
    return {
        "instance_types": types,
        "health_checks": slurm.health_checks,
        "login_needs_job": slurm.login_needs_job,
        "settings": dict(slurm.settings),
        "accounting_database": slurm.accounting_database.model_dump() if slurm.accounting_database else None,
    }


def _facts(instance: Instance) -> dict[str, Any]:
    gres = None
    if accelerator := instance.accelerator:
        name, device = GRES[accelerator.vendor]
        kind = accelerator.name.lower().replace(" ", "-")
        gres = {"name": name, "type": kind, "count": accelerator.count, "device": device}
    memory = instance.memory_gib * 1024
    return {"cpus": instance.vcpus, "memory_mib": memory, "gres": gres, "efa": instance.efa_interfaces}
