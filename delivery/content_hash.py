"""The hash of what an image is made of, which is its tag: `content_hash.py image|base_image`, of this checkout."""

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

# The Dockerfile's arguments, which the deploy chooses. They are all of trainway/spec/facts/versions.yaml that the image
# is made of.
ARGUMENTS = "image.json"
# A change elsewhere must not rebuild an image. The base is the stages up to the last one that needs the internet.
_BASE = (
    "container/Dockerfile",
    "container/Dockerfile.dockerignore",
    "container/requirements",
    "pyproject.toml",
    ARGUMENTS,
)
PARTS = {
    "image": (*_BASE, "container/verify_image.py", "training"),
    "base_image": _BASE,
}


def content_hash(root: Path, parts: Iterable[str]) -> str:
    """A hash of names and contents; times and permissions of a checkout differ between machines and do not count."""
    total = hashlib.sha256()
    files = (file for part in parts for file in ((root / part).rglob("*") if (root / part).is_dir() else [root / part]))
    for file in sorted(file for file in files if file.is_file()):
        total.update(f"{file.relative_to(root).as_posix()}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


if __name__ == "__main__":
    print(content_hash(Path(__file__).resolve().parents[1], PARTS[sys.argv[1]]))
