"""What the rules read: the steps that made an image, its variables, and its files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainway.image_doctor.files import ImageFiles

_NVIDIA: Final = re.compile(r"nvcr\.io/")
_NGC: Final = re.compile(r"nvcr\.io/nvidia/(pytorch|nemo|cuda-dl-base)\b|nvcr\.io/\S*/(pytorch|nemo)\b")


@dataclass(frozen=True)
class Base:
    """An image that a Dockerfile names after FROM, with its variables replaced, and where."""

    image: str
    where: str


@dataclass(frozen=True)
class BuildStep:
    """A step that made the image: its word, for example RUN, its text with variables replaced, and where it is."""

    word: str
    text: str
    where: str
    lines: Sequence[tuple[str, str]] = ()
    """Where each line of the step is, and its text, of a step that has several."""

    def where_of(self, pattern: str) -> str:
        """Return where the first line is that the pattern matches, or where the step is."""
        return next((where for where, text in self.lines if re.search(pattern, text)), self.where)


@dataclass(frozen=True)
class Variable:
    """The value that a variable has in a container, and where it was set."""

    value: str
    where: str


@dataclass(frozen=True)
class Subject:
    """An image or a Dockerfile. `files` is None if they are not known, as those of a Dockerfile."""

    name: str
    bases: tuple[Base, ...]
    """The images of the stages, that of the image itself first. Empty if they are not known."""
    steps: tuple[BuildStep, ...]
    variables: Mapping[str, Variable]
    files: ImageFiles | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[BuildStep, ...]:
        """The steps that run a command or fetch a file."""
        return tuple(step for step in self.steps if step.word in ("RUN", "ADD"))

    def value(self, name: str) -> str | None:
        """Return the value of a variable, or None if it is not set."""
        found = self.variables.get(name)
        return found.value if found else None

    @property
    def is_nvidias(self) -> bool:
        """Whether the image is built on one of NVIDIA's own."""
        return self.is_ngc or any(_NVIDIA.match(base.image) or "nvidia/cuda" in base.image for base in self.bases[:1])

    @property
    def is_ngc(self) -> bool:
        """Whether the image is built on one of NVIDIA's framework images, which have HPC-X and plugins of their own."""
        by_name = any(_NGC.match(base.image) for base in self.bases[:1])
        return by_name or any(name in self.variables for name in ("NVIDIA_PRODUCT_NAME", "HPCX_VERSION", "HPCX_DIR"))

    @property
    def installs_efa(self) -> BuildStep | None:
        """The step that runs AWS's EFA installer."""
        return next((step for step in self.runs if "efa_installer.sh" in step.text), None)

    @property
    def names_plugin(self) -> bool:
        """Whether a step or a variable names AWS's plugin for NCCL, which the installer brings from 1.30.0 on."""
        words = [step.text for step in self.steps] + [each.value for each in self.variables.values()]
        return any("ofi-nccl" in word or "nccl-ofi" in word for word in words)


def library_path(subject: Subject) -> list[str]:
    """Return the directories of LD_LIBRARY_PATH in order."""
    return [part.rstrip("/") for part in (subject.value("LD_LIBRARY_PATH") or "").split(":") if part]
