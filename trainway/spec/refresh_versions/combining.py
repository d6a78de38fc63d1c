"""The combination that `current` moves to: the newest PyTorch with the newest EFA installer that goes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from trainway.spec.facts.versions import EfaInstaller, PyTorch, Versions, combination_named, release
from trainway.spec.image.compatibility import Fabric, Promise, fabric_of, nccl_level

MAXIMUM_AGE = timedelta(days=14)
"""How long after a release of PyTorch `current` may lack it."""


def newest(versions: Versions) -> PyTorch:
    """Return the newest PyTorch of the file."""
    return max(versions.pytorch, key=lambda wheel: _numbers(wheel.version))


def next_current(versions: Versions, evidence: str | None, today: date) -> dict[str, Any] | None:
    """Return the row of a combination that is newer than `current`, or None if there is none.

    An installer whose plugin was not tested with the NCCL needs evidence: the argument, or that of a combination which
    has both already.
    """
    current = combination_named(versions, "current")
    assert current, "VERSION_RULES let nothing else pass"
    wheel = newest(versions)
    for installer, level, known in _fitting(versions, wheel, evidence):
        if (wheel.version, installer.version) == (current.pytorch, current.efa_installer):
            return None
        row: dict[str, Any] = {"name": _name(versions, wheel, installer), "made": today}
        row |= {"evidence": known} if level == "compatible" else {}
        row["unknown"] = [
            "its image has not been built, and no GPU has run it",
            f"Transformer Engine {current.transformer_engine} has not been compiled for PyTorch {wheel.version}",
        ]
        kept = current.model_dump(include={"gdrcopy", "images", "transformer_engine", "nemo", "flash_attention"})
        tests = max(versions.nccl_tests, key=lambda each: _numbers(each.version)).version
        return row | {
            "pytorch": wheel.version,
            "efa_installer": installer.version,
            "nccl_tests": tests,
            **{key: kept[key] for key in ("gdrcopy", "images", "transformer_engine", "nemo", "flash_attention")},
        }
    return None


def late(versions: Versions, released: Mapping[str, date], today: date) -> str | None:
    """Return a sentence if `current` lacks a PyTorch that was released more than MAXIMUM_AGE ago, or None."""
    current = combination_named(versions, "current")
    assert current, "VERSION_RULES let nothing else pass"
    missing = [version for version in released if _numbers(version) > _numbers(current.pytorch)]
    for version in missing:
        if today - released[version] > MAXIMUM_AGE:
            age = (today - released[version]).days
            return (
                f"current has PyTorch {current.pytorch}, and {version} was released {age} days ago. No EFA installer "
                "has a checksum, and a promise or evidence for its NCCL. Name evidence: --evidence 'WHO (URL, DAY)'"
            )
    return None


def _fitting(
    versions: Versions, wheel: PyTorch, evidence: str | None
) -> Iterator[tuple[EfaInstaller, Promise, str | None]]:
    """Yield the installers that go with the NCCL of a PyTorch, the newest first, with the promise and the evidence."""
    for installer in sorted(versions.efa_installers, key=lambda each: _numbers(each.version), reverse=True):
        plugin = release(versions.aws_ofi_nccl, installer.aws_ofi_nccl)
        level = plugin and nccl_level(Fabric(wheel.nccl, installer, plugin))
        known = _known_evidence(versions, wheel.nccl, installer) or evidence
        if installer.sha256 and level and (level == "tested" or known):
            yield installer, level, known


def _known_evidence(versions: Versions, nccl: str, installer: EfaInstaller) -> str | None:
    """Return the evidence of a combination that has an NCCL and an installer, or None."""
    for each in versions.combinations:
        fabric = fabric_of(versions, each)
        if fabric and each.evidence and (fabric.nccl, fabric.installer.version) == (nccl, installer.version):
            return each.evidence
    return None


def _name(versions: Versions, wheel: PyTorch, installer: EfaInstaller) -> str:
    """Return a name that no combination has: a name means the same versions for good."""
    taken = {each.name for each in versions.combinations}
    minor = ".".join(wheel.version.split(".")[:2])
    names = [f"pytorch-{minor}", f"pytorch-{wheel.version}", f"pytorch-{wheel.version}-efa-{installer.version}"]
    return next(name for name in names if name not in taken)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
