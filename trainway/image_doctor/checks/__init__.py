"""Checks that compare versions, steps, variables, and files. Each yields the findings of rules of rules.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trainway.image_doctor.checks.base import base_has_a_version, hpcx_stays, ours_before_nvidias
from trainway.image_doctor.checks.installer import installer_version
from trainway.image_doctor.checks.libraries import libraries_found
from trainway.image_doctor.checks.paths import directories_in_order
from trainway.image_doctor.checks.plugin import plugin_is_built_for_efa
from trainway.image_doctor.rules import ImageFinding
from trainway.image_doctor.subject import Subject

CHECKS: Final[tuple[Callable[[Subject], Iterator[ImageFinding]], ...]] = (
    base_has_a_version,
    installer_version,
    plugin_is_built_for_efa,
    ours_before_nvidias,
    hpcx_stays,
    directories_in_order,
    libraries_found,
)
