"""Whether a job file suits the node groups of a platform file, before there is a platform."""

from __future__ import annotations

from pathlib import Path

from trainway.launch.program.allocation import FIX_ACCELERATOR, is_usable, why_unusable
from trainway.launch.program.program import Program
from trainway.spec.document import read_document
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError


def check_node_groups(file: Path, program: Program, platform: Platform, catalogue: Catalogue) -> None:
    """Raise SpecError if the program of a job file can use the accelerators of no node group that has some.

    A platform without accelerators trains on the CPU.
    """
    found = [(group, catalogue[group.instance_type].accelerator) for group in platform.node_groups]
    accelerated = [(group, accelerator) for group, accelerator in found if accelerator]
    if accelerated and not any(is_usable(program, accelerator) for _, accelerator in accelerated):
        group, accelerator = accelerated[0]
        why = f"the job cannot train on {platform.name}: {why_unusable(group.instance_type, accelerator)}"
        raise SpecError([read_document(file).problem(("model",), why, FIX_ACCELERATOR)])
