"""Fetch the code of a run, which `trainway launch` or `trainway sync` uploaded, and print the directory that has it.

    PYTHONPATH=$(python3 synced_code.py s3://bucket/runs/code/<sha256>.tar.gz DIRECTORY):$PYTHONPATH

The code is in a directory below DIRECTORY with the archive's SHA-256 as its name. Each start compares the files there
with the archive.

The launcher sends this file, private_code.py, aws_on_node.py, and exit_statuses.py to the nodes of a run with code.
They require Python 3.9, and for an archive in S3 boto3 or the AWS CLI. The exit status is 127 if trying again cannot
help, or 1.
"""

import argparse
import hashlib
import sys
import tempfile
import types
from pathlib import Path

if __name__ == "__main__":
    # On a node, this file and its siblings are in one directory, without the packages above them.
    _package = types.ModuleType("trainway.launch.node")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_package.__name__] = _package

from trainway.launch.node.aws_on_node import CannotRead, fetch_object
from trainway.launch.node.exit_statuses import FAILED, CannotStart
from trainway.launch.node.private_code import UnsafeCodeDirectory, unpack

SUFFIX = ".tar.gz"


def main(arguments: "list[str]") -> int:
    """Print the directory of the code, or why there is none, and return the exit status."""
    parser = argparse.ArgumentParser(description="Fetch the code of a run.")
    parser.add_argument("archive", help="archive, a file or an s3://bucket/key, named by its SHA-256")
    parser.add_argument("directory", type=Path, help="directory on this node, for any number of archives")
    asked = parser.parse_args(arguments)
    try:
        print(fetched(asked.archive, asked.directory))
    except CannotStart as problem:
        print(f"trainway: {problem}", file=sys.stderr)
        return problem.status
    return 0


def fetched(archive: str, directory: Path) -> Path:
    """Fetch an archive, and return the directory below `directory` that has its code. Raises CannotStart."""
    return unpacked(archive, _content(archive), directory)


def unpacked(archive: str, content: bytes, directory: Path) -> Path:
    """Return the directory below `directory` that has the code of an archive with this content.

    Raises CannotStart if the content is not that of the archive's name, or if it cannot be unpacked.
    """
    digest = archive.rpartition("/")[2][: -len(SUFFIX)]
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise CannotStart(f"the code at {archive} has another SHA-256 than its name, {found}: launch again")
    try:
        return unpack(content, digest, directory)
    except UnsafeCodeDirectory as problem:
        raise CannotStart(str(problem)) from None
    except OSError as problem:
        raise CannotStart(f"the code at {archive} cannot be unpacked into {directory}: {problem}", FAILED) from None


def _content(archive: str) -> bytes:
    """Return the content of an archive in S3 or on a file system. Raises CannotStart."""
    try:
        if not archive.startswith("s3://"):
            return Path(archive).read_bytes()
        with tempfile.TemporaryDirectory() as fetched:
            file = Path(fetched) / "archive"
            fetch_object(archive, str(file))
            return file.read_bytes()
    except FileNotFoundError:
        raise CannotStart(f"there is no code at {archive}: launch again, or `trainway sync` uploads it") from None
    except CannotRead as problem:
        raise CannotStart(f"the code of the run cannot be fetched: {problem}", problem.status) from None
    except OSError as problem:
        raise CannotStart(f"the code at {archive} cannot be read: {problem}", FAILED) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
