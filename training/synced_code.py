"""Fetch code that `trainway sync` uploaded, so that it takes precedence over the image's code when the job starts:

    PYTHONPATH=$(python -m training.synced_code s3://bucket/runs/code/<sha256>.tar.gz DIRECTORY):$PYTHONPATH

It prints the directory below DIRECTORY that has the code. An archive that is already there is not fetched again.
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
    parser.add_argument("archive", help="archive, a file or an s3://bucket/key, named by its SHA-256")
    parser.add_argument("directory", type=Path, help="directory on this machine, for any number of archives")
    arguments = parser.parse_args()
    try:
        print(fetch(arguments.archive, arguments.directory))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def fetch(archive: str, directory: Path) -> Path:
    """Return the directory below `directory` that holds the content of the archive.

    Raises:
        UserError: the archive does not exist, or its digest differs from its name.
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
    # Several ranks of a node may fetch at once. An existing directory has to be complete.
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
