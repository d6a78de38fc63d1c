"""Puts code that `trainway sync` uploaded before the image's own, on a node or in a container, before the job starts:

    PYTHONPATH=$(python -m training.synced_code s3://bucket/runs/code/<sha256>.tar.gz DIRECTORY):$PYTHONPATH

Prints the directory that has the code, below DIRECTORY. What is there already is not fetched again.
"""

import argparse
import hashlib
import io
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from training.errors import UserError
from training.hosts import location_files

SUFFIX = ".tar.gz"


def main() -> None:
    """Fetch code that was synchronized, by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="training.synced_code", description="Fetch code that was synced.")
    parser.add_argument("archive", help="the archive, a file or an s3://bucket/key, named by its SHA-256")
    parser.add_argument("directory", type=Path, help="a directory of this machine, for any number of archives")
    arguments = parser.parse_args()
    try:
        print(fetch(arguments.archive, arguments.directory))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def fetch(archive: str, directory: Path) -> Path:
    """The directory below `directory` that holds what is in the archive.

    Raises:
        UserError: there is no archive, or it is another one than its name says.
    """
    digest = archive.rpartition("/")[2].removesuffix(SUFFIX)
    code = directory / digest
    if code.is_dir():
        return code
    content = location_files.read(archive)
    if content is None:
        raise UserError(f"{archive}: there is no such archive; `trainway sync` uploads it")
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise UserError(f"{archive}: the archive's SHA-256 is {found}; `trainway sync` uploads it again")
    directory.mkdir(parents=True, exist_ok=True)
    # Ranks of a node may come at once, and a directory that is there has to be whole.
    unfinished = Path(tempfile.mkdtemp(dir=directory))
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            tar.extractall(unfinished, filter="data")
        unfinished.chmod(0o755)
        unfinished.rename(code)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not code.is_dir():
            raise
    return code


if __name__ == "__main__":
    main()
