"""Export the manifests as YAML files, for clusters that are managed by GitOps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from trainway.manifests import cluster_manifests
from trainway.manifests.training_runtime import image_fact
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.platform import Platform

FACT = re.compile(r"\$\{(TRAINWAY_[A-Z0-9_]+)\}")
HEADER = "# Written by `trainway manifests` from the platform file; what is changed here is lost.\n"


def export_manifests(
    platform: Platform, catalogue: Catalogue, directory: Path, hand_off: HandOff | None
) -> tuple[list[Path], list[str]]:
    """Return the written files, and the names of facts that only a deploy knows and that are still open in them.

    Files of an earlier export that are no longer part of it are removed. Raises UsageError under Slurm, and if the
    directory holds any other file.
    """
    what = f"the manifests cannot be written to {directory}"
    if not platform.orchestrator.is_kubernetes:
        why = f"{platform.name} is orchestrated by {platform.orchestrator.value}, which has no Kubernetes"
        raise usage_error(what, why=why, fix="name a platform of eks or hyperpod-eks")
    if directory.exists() and not directory.is_dir():
        raise usage_error(what, why="it is a file", fix="name a directory with --out")
    there = [file for file in directory.rglob("*") if file.is_file()] if directory.exists() else []
    if strangers := [file for file in there if file.suffix != ".yaml" or not file.read_text().startswith(HEADER)]:
        why = f"it holds {strangers[0].relative_to(directory)}, which was not written by this command"
        raise usage_error(what, why=why, fix="name a directory of its own with --out")
    facts = _facts(hand_off) if hand_off else {}
    written, open_names = [], set[str]()
    for name, manifest in cluster_manifests(platform, catalogue).items():
        text = FACT.sub(lambda found: facts.get(found[1], found[0]), json.dumps(manifest))
        open_names.update(FACT.findall(text))
        file = directory / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + yaml.safe_dump(json.loads(text), sort_keys=False), encoding="utf-8")
        written.append(file)
    for file in set(there) - set(written):
        file.unlink()
    return written, sorted(open_names)


def _facts(hand_off: HandOff) -> dict[str, str]:
    """Return the values of a manifest's placeholders, by the names that the delivery gives them."""
    images = {image_fact(name): uri for name, uri in hand_off.image_uris.items()}
    file_system = hand_off.file_system
    if file_system is None:
        return images
    return {
        "TRAINWAY_FSX_ID": file_system.file_system_id,
        "TRAINWAY_FSX_DNS_NAME": file_system.dns_name,
        "TRAINWAY_FSX_MOUNT_NAME": file_system.mount_name,
        **images,
        **({"TRAINWAY_FSX_SUBNET_ID": file_system.subnet_id} if file_system.subnet_id else {}),
        **({"TRAINWAY_FSX_GROUP_ID": file_system.security_group_id} if file_system.security_group_id else {}),
    }
