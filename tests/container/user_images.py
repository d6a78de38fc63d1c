"""Images with what a platform file adds, on a base that is made here, built by the delivery's own scripts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from delivery.content_hash import image_hash
from delivery.user_dockerfile import OPTIONS
from tests.container import stand_ins
from tests.container.builder import BASES, IMAGES, REGISTRY, Builder, prepare, store_of

PARTS = ("container", "delivery", "training", "pyproject.toml")
EPOCH = "1767225600"
USER = "useradd --create-home --uid 1000 --non-unique --shell /bin/bash trainer"


@dataclass(frozen=True)
class Shop(Builder):
    """A builder with the arguments of a platform that adds to its image."""

    def tag(self, what: str) -> str:
        """Return the tag of an image, as a deploy of this copy computes it."""
        return image_hash(self.root, what, json.loads((self.root / "image.json").read_text()))

    def additions(self) -> subprocess.CompletedProcess[str]:
        """Run the stage that builds what the platform adds to the base."""
        tags = {"PACKAGES_TAG": self.tag("packages"), "DOCKERFILE_TAG": self.tag("dockerfile")}
        return self.run("bash", "delivery/additions.sh", BASE_TAG="base", **tags)

    def image(self) -> str:
        """Run the last stage on what the additions are, and return the image's name."""
        below = next(tag for tag in (self.tag("dockerfile"), self.tag("packages"), "base") if tag != "none")
        self.must("bash", "delivery/image.sh", BASE_TAG=below, IMAGE_TAG=self.tag("image"))
        return f"{REGISTRY}/{IMAGES}:{self.tag('image')}"

    def make_base(
        self, commands: str, environment: Mapping[str, str], fill: Callable[[Path], None] = lambda _: None
    ) -> None:
        """Make the base image from a Debian with Python by shell commands, with settings of its own.

        `fill` gets the mounted file system when the virtual environment of the image is there.
        """

        def system(directory: Path) -> None:
            stand_ins.base_system(directory)
            (directory / "opt/trainway/build").mkdir(parents=True)
            shutil.copy(self.root / "container/layer.sh", directory / "opt/trainway/build/layer.sh")

        container = self.container(system)
        self.configure(container, environment)
        self.shell(container, "python3 -m venv /opt/trainway")
        self.change_files(container, fill)
        self.shell(container, f"export PATH=/opt/trainway/bin:$PATH && {commands} && {USER}")
        path = "/opt/trainway/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        self.configure(container, {"PATH": path, "PYTHONPATH": "/opt/trainway/src"})
        name = f"{REGISTRY}/{BASES}:base"
        self.commit(container, name)
        listed = self.root / "ecr" / BASES
        listed.mkdir(parents=True)
        inspected = self.must("buildah", "inspect", "--type", "image", "--format", "{{.FromImageDigest}}", name)
        (listed / "base").write_text(inspected)


@contextmanager
def shop(root: Path, arguments: Mapping[str, str]) -> Iterator[Shop]:
    """Yield a copy of the pipeline's source below a directory, and delete its images afterwards."""
    prepare(root, PARTS)
    made = Shop(root, {})
    # The deploy writes every argument, empty where the variant has nothing of the kind.
    own = {"BASE_IMAGE": "localhost/debian:1", "SOURCE_DATE_EPOCH": EPOCH}
    made.write_arguments({**dict.fromkeys(OPTIONS.values(), ""), **arguments, **own})
    with store_of(made):
        yield made
