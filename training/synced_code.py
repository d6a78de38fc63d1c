"""Fetch code that `trainway sync` uploaded, so that it takes precedence over the image's code when the job starts:

    PYTHONPATH=$(python -m training.synced_code s3://bucket/runs/code/<sha256>.tar.gz DIRECTORY):$PYTHONPATH

It prints the directory below DIRECTORY that has the code. Each start compares the files there with the archive.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from training.errors import StorageFailed, UserError
from training.hosts import location_files
from training.private_code import UnsafeCodeDirectory, unpack

SUFFIX = ".tar.gz"


def main() -> None:
    """Fetch code that was synchronized, by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="training.synced_code", description="Fetch code that was synced.")
    parser.add_argument("archive", help="archive, a file or an s3://bucket/key, named by its SHA-256")
    parser.add_argument("directory", type=Path, help="directory on this machine, for any number of archives")
    arguments = parser.parse_args()
    try:
        print(fetch(arguments.archive, arguments.directory))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)


def fetch(archive: str, directory: Path) -> Path:
    """Return the directory below `directory` that holds the content of the archive.

    Raises:
        UserError: the archive does not exist, its digest differs from its name, or `directory` is not this user's
            alone.
        StorageFailed: the code cannot be written, for example because the disk is full.
    """
    digest = archive.rpartition("/")[2].removesuffix(SUFFIX)
    content = location_files.read(archive)
    if content is None:
        raise UserError(f"{archive}: there is no such archive; `trainway sync` uploads it")
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise UserError(f"{archive}: the archive's SHA-256 is {found}; `trainway sync` uploads it again")
    try:
        return unpack(content, digest, directory)
    except UnsafeCodeDirectory as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise StorageFailed(f"{archive} cannot be unpacked into {directory}: {error}") from error


if __name__ == "__main__":
    main()
