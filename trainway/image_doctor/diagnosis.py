"""Everything that the rules find in an image or a Dockerfile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainway.image_doctor.archive import INDEX, FileBlobs
from trainway.image_doctor.checks import CHECKS
from trainway.image_doctor.dockerfile import dockerfile_subject
from trainway.image_doctor.registry import RegistryBlobs
from trainway.image_doctor.rules import ImageFinding, ImageSeverity, commands_found, load_rules, variables_found
from trainway.image_doctor.stored_image import stored_subject
from trainway.image_doctor.subject import Subject
from trainway.spec.errors import usage_error

_LARGEST_DOCKERFILE: Final = 2**20


@dataclass(frozen=True)
class Diagnosis:
    """What was found in an image: findings, errors first, the versions of its parts, and what could not be read."""

    name: str
    findings: tuple[ImageFinding, ...]
    versions: Mapping[str, str]
    unread: tuple[str, ...]

    @property
    def has_errors(self) -> bool:
        """Whether a finding is an error."""
        return any(each.severity is ImageSeverity.ERROR for each in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the diagnosis for JSON."""
        return {
            "image": self.name,
            "versions": dict(self.versions),
            "unread": list(self.unread),
            "findings": [each.as_json() for each in self.findings],
        }

    def __str__(self) -> str:
        errors = sum(each.severity is ImageSeverity.ERROR for each in self.findings)
        warnings = len(self.findings) - errors
        lines = [f"{part}: {version}" for part, version in sorted(self.versions.items())]
        lines += [*map(str, self.findings), *self.unread]
        return "\n".join([*lines, f"{self.name}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"])


def diagnose(subject: Subject) -> Diagnosis:
    """Return what the rules find."""
    found = [*variables_found(subject), *commands_found(subject)]
    found += [finding for check in CHECKS for finding in check(subject)]
    order = list(load_rules())
    once = dict.fromkeys(found)
    ordered = sorted(once, key=lambda each: (each.severity is not ImageSeverity.ERROR, order.index(each.code)))
    files = subject.files
    return Diagnosis(
        subject.name, tuple(ordered), files.versions() if files else {}, tuple(files.unread) if files else ()
    )


def subject_named(name: str, *, architecture: str = "amd64", with_layers: bool = True) -> Subject:
    """Return what a name leads to: a Dockerfile, its directory, an OCI layout, an archive, or an image of a registry.

    Raises UsageError if it is none of them, or cannot be read.
    """
    path = Path(name)
    if path.is_dir() and not (path / INDEX).is_file():
        path = path / "Dockerfile"
    if path.is_dir() or _is_archive(path):
        return stored_subject(FileBlobs(path), architecture=architecture, with_layers=with_layers)
    if path.exists() or path.name == "Dockerfile" or name.startswith((".", "/")):
        return dockerfile_subject(str(path), _text(path))
    return stored_subject(RegistryBlobs(name), architecture=architecture, with_layers=with_layers)


def _is_archive(path: Path) -> bool:
    import tarfile

    try:
        return path.is_file() and tarfile.is_tarfile(path)
    except OSError:
        return False


def _text(path: Path) -> str:
    fix = "name a Dockerfile, an image, an OCI layout, or an archive of an image"
    try:
        if path.stat().st_size > _LARGEST_DOCKERFILE:
            raise usage_error(f"{path} is no Dockerfile", why="it is larger than 1 MiB", fix=fix)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(f"{path} cannot be read", why=str(error), fix=fix) from None


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
