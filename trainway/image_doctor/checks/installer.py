"""The version of AWS's EFA installer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainway.image_doctor.rules import ImageFinding, finding
from trainway.image_doctor.subject import BuildStep, Subject
from trainway.spec.facts.kubernetes_versions import numbers

_ARCHIVE: Final = re.compile(r"aws-efa-installer-(?P<version>[^\s/\"']+?)\.tar\.gz")
_VERSION: Final = re.compile(r"\d+(\.\d+)+")
# Rule EFA002 of AWS's doctor, which has it from the release notes of the installer.
_FOR_NCCL_2_19: Final = (1, 29, 1)
_SYNC: Final = "FI_EFA_SET_CUDA_SYNC_MEMOPS"
# From 1.48 on, the installer looks for NVIDIA's entry point (its script, read 2026-11-28).
_KNOWS_NGC: Final = (1, 48)


def installer_version(subject: Subject) -> Iterator[ImageFinding]:
    """Yield a finding for an installer without a version, and for a version that does not fit."""
    archives = list(_archives(subject))
    run = subject.installs_efa
    versions = installer_versions(subject)
    for _, version, where in archives:
        if version == "latest":
            yield finding("installer-is-the-latest", where, "the EFA installer is that of the day of the build")
    if run and not archives:
        yield finding("installer-has-no-version", run.where_of("efa_installer"), "the EFA installer has no version")
    elif run and not versions and not any(version == "latest" for _, version, _ in archives):
        what = f"the version of the EFA installer is {archives[0][1]}, which has no value"
        yield finding("installer-has-no-version", archives[0][2], what)
    for step, version, where in archives:
        is_old = bool(_VERSION.fullmatch(version)) and numbers(version) < _FOR_NCCL_2_19
        if is_old and subject.value(_SYNC) is None and f"{_SYNC}=" not in step.text:
            yield finding(
                "installer-is-older-than-nccl", where, f"the EFA installer is {version}, and {_SYNC} is unset"
            )
    if run and subject.is_nvidias and max(versions, default=(0,)) >= _KNOWS_NGC and "--disable-ngc" not in run.text:
        what = f"the EFA installer {'.'.join(map(str, max(versions)))} runs on an image of NVIDIA without --disable-ngc"
        yield finding("installer-leaves-parts-out", run.where_of("efa_installer"), what)


def installer_versions(subject: Subject) -> list[tuple[int, ...]]:
    """Return the versions of the installers that an image fetches, as far as they are known."""
    return [numbers(version) for _, version, _ in _archives(subject) if _VERSION.fullmatch(version)]


def _archives(subject: Subject) -> Iterator[tuple[BuildStep, str, str]]:
    """Yield each archive that a step names, once: the step, the version, and where it is."""
    for step in subject.runs:
        for version in dict.fromkeys(found[1] for found in _ARCHIVE.finditer(step.text)):
            yield step, version, step.where_of("aws-efa-installer")
