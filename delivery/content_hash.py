"""The tag of an image, which is the hash of what the image is made of: `python3 -m delivery.content_hash NAME`.

NAME is image, base, packages, or dockerfile. The last two are `none` for a platform that adds no such thing to the
base.

Only content counts. A comment in the Dockerfile or in a list of packages, a stage that is not built, an argument of an
add-on that is not chosen, and what pyproject.toml says of anything but the job's packages leave the tag as it is.
"""

import hashlib
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from delivery.dockerfile import made

# The Dockerfile's arguments, which the deploy chooses. They are all of trainway/spec/facts/versions.yaml that the image
# is made of.
ARGUMENTS = "image.json"
DOCKERFILE = "container/Dockerfile"
# What a build of the image, or of its base, may use of the repository.
SOURCES = ("container", "pyproject.toml", "training")
# What the deploy found beside the platform file: lists of packages, and the build context of a Dockerfile.
ADDITIONS = "additions"
LISTS = ("additions/apt.txt", "additions/pip.txt")
CONTEXT = "additions/dockerfile"
# What the builds of these use of the repository.
FOR_PACKAGES = ("container/bill_of_materials.py", "container/packages.Dockerfile", "container/verify_image.py")
FOR_DOCKERFILE = ("container/bill_of_materials.py", "container/verify_image.py", "delivery/user_dockerfile.py")
NONE = "none"
# The stages of container/Dockerfile: the base changes with its libraries, and the image with the job.
TARGETS = {"image": "training", "base": "libraries"}


def content_hash(root: Path, parts: Iterable[str]) -> str:
    """Return the hash of names and contents of files, without their times and permissions."""
    total = hashlib.sha256()
    for file in _files(root, parts):
        total.update(f"{file.relative_to(root).as_posix()}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def image_hash(root: Path, what: str, arguments: Mapping[str, str]) -> str:
    """Return the tag of `image`, `base`, `packages`, or `dockerfile`, as built from the repository's root.

    The tag is a function of everything below the image, too.
    """
    if what == "packages":
        there = [file for file in LISTS if (root / file).exists()]
        below = [image_hash(root, "base", arguments)]
        used = [*_hashes(root, there, _content), *_hashes(root, FOR_PACKAGES, Path.read_bytes)]
        return f"packages-{_joined([*below, *used])}" if there else NONE
    if what == "dockerfile":
        below = [image_hash(root, each, arguments) for each in ("base", "packages")]
        used = _hashes(root, [CONTEXT, *FOR_DOCKERFILE], Path.read_bytes)
        return f"dockerfile-{_joined([*below, *used])}" if (root / CONTEXT).exists() else NONE
    own = _stage_hash(root, what, arguments)
    if what == "base":
        return own
    added = [image_hash(root, each, arguments) for each in ("packages", "dockerfile")]
    return own if set(added) == {NONE} else _joined([own, *added])


def _stage_hash(root: Path, what: str, arguments: Mapping[str, str]) -> str:
    """Return the hash of a stage of container/Dockerfile."""
    used = made((root / DOCKERFILE).read_text(encoding="utf-8"), TARGETS[what], arguments)
    # How layers are compressed is no argument of the Dockerfile, and decides who can read them.
    settings = arguments.get("LAYER_COMPRESSION", "gzip")
    total = hashlib.sha256(json.dumps([used.instructions, used.arguments, settings]).encode())
    for file in _files(root, used.files):
        total.update(f"{file.relative_to(root).as_posix()}\0".encode())
        total.update(hashlib.sha256(_content(file)).digest())
    return total.hexdigest()[:16]


def _hashes(root: Path, parts: Iterable[str], content: Callable[[Path], bytes]) -> list[str]:
    """Return the names of files and the hashes of their contents."""
    return [
        f"{file.relative_to(root).as_posix()} {hashlib.sha256(content(file)).hexdigest()}"
        for file in _files(root, parts, everything=True)
    ]


def _joined(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _files(root: Path, parts: Iterable[str], *, everything: bool = False) -> Iterator[Path]:
    """Yield the files of some parts of a directory: without `everything`, none that Python leaves beside sources."""
    found = (file for part in parts for file in ((root / part).rglob("*") if (root / part).is_dir() else [root / part]))
    yield from sorted(file for file in found if file.is_file() and (everything or file.suffix != ".pyc"))


def _content(file: Path) -> bytes:
    """Return what an image gets of a file, in any notation."""
    text = file.read_bytes()
    if file.name == "pyproject.toml":
        # A Neuron image chooses the job's packages from it.
        return json.dumps(sorted(tomllib.loads(text.decode())["project"]["optional-dependencies"]["training"])).encode()
    if file.parent.name == "requirements" or file.parent.name == ADDITIONS:
        return b"\n".join(line for line in text.splitlines() if line.strip() and not line.startswith(b"#"))
    return text


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1]
    print(image_hash(here, sys.argv[1], json.loads((here / ARGUMENTS).read_text(encoding="utf-8"))))
