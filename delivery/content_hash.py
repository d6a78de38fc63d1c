"""The tag of an image, which is the hash of what the image is made of: `python3 -m delivery.content_hash image|base`.

Only content counts. A comment in the Dockerfile or in a list of packages, a stage that is not built, an argument of an
add-on that is not chosen, and what pyproject.toml says of anything but the job's packages leave the tag as it is.
"""

import hashlib
import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from delivery.dockerfile import made

# The Dockerfile's arguments, which the deploy chooses. They are all of trainway/spec/facts/versions.yaml that the image
# is made of.
ARGUMENTS = "image.json"
DOCKERFILE = "container/Dockerfile"
# What a build of the image, or of its base, may use of the repository.
SOURCES = ("container", "pyproject.toml", "training")
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
    """Return the tag of `image` or `base` that is built from the repository's root with the arguments."""
    used = made((root / DOCKERFILE).read_text(encoding="utf-8"), TARGETS[what], arguments)
    # How layers are compressed is no argument of the Dockerfile, and decides who can read them.
    settings = arguments.get("LAYER_COMPRESSION", "gzip")
    total = hashlib.sha256(json.dumps([used.instructions, used.arguments, settings]).encode())
    for file in _files(root, used.files):
        total.update(f"{file.relative_to(root).as_posix()}\0".encode())
        total.update(hashlib.sha256(_content(file)).digest())
    return total.hexdigest()[:16]


def _files(root: Path, parts: Iterable[str]) -> Iterator[Path]:
    """Yield the files of some parts of a directory, without what Python leaves beside its sources."""
    found = (file for part in parts for file in ((root / part).rglob("*") if (root / part).is_dir() else [root / part]))
    yield from sorted(file for file in found if file.is_file() and file.suffix != ".pyc")


def _content(file: Path) -> bytes:
    """Return what an image gets of a file, in any notation."""
    text = file.read_bytes()
    if file.name == "pyproject.toml":
        # A Neuron image chooses the job's packages from it.
        return json.dumps(sorted(tomllib.loads(text.decode())["project"]["optional-dependencies"]["training"])).encode()
    if file.parent.name == "requirements":
        return b"\n".join(line for line in text.splitlines() if line.strip() and not line.startswith(b"#"))
    return text


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1]
    print(image_hash(here, sys.argv[1], json.loads((here / ARGUMENTS).read_text(encoding="utf-8"))))
