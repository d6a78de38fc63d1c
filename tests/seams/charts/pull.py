"""Put charts of delivery/mirror.yaml into a directory, from where they are published."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delivery.mirror_list import from_repository, read_lock
from tests.kubernetes_tools import tool

Entry = Mapping[str, Any]
SECONDS = 120


class Unreachable(Exception):
    """The reason why a chart was not read."""


def pull(entry: Entry, archives: Path, directory: Path) -> None:
    """Unpack a chart in a folder of its name below `directory`, or put a published manifest there as NAME.yaml.

    `archives` keeps what was read, as NAME-VERSION.tgz or NAME-VERSION.yaml, and a file that it has is not read again.
    Raises SystemExit if the chart cannot be read, or if its checksum is not the pinned one.
    """
    name, version = entry["chart"], entry["version"]
    archives.mkdir(parents=True, exist_ok=True)
    file = archives / f"{name}-{version}.{'yaml' if 'manifest' in entry else 'tgz'}"
    try:
        if not file.exists():
            _fetch(entry, file)
        if "manifest" in entry:
            shutil.copy(file, directory / f"{name}.yaml")
        else:
            _check_sum(entry, file)
            _run("tar", "--extract", "--gzip", "--file", file, "--directory", directory)
    except Unreachable as why:
        raise SystemExit(
            f"{name} {version} cannot be read: {why}. Read it on a machine that can, and copy it to {file}"
        ) from None
    print(f"chart {name} {version}: taken from {file}", flush=True)


def _check_sum(entry: Entry, file: Path) -> None:
    locked = read_lock()["charts"].get(entry["chart"]) if from_repository(dict(entry)) else None
    pinned = locked["sha256"] if locked and locked["version"] == entry["version"] else None
    if pinned and hashlib.sha256(file.read_bytes()).hexdigest() != pinned:
        raise SystemExit(
            f"{file} does not have the SHA-256 that delivery/mirror.lock.yaml pins. Delete it, and try again"
        )


def _fetch(entry: Entry, file: Path) -> None:
    """Write a published manifest, or the packed chart of a repository, a registry, or a commit, to a file."""
    if "manifest" in entry:
        file.write_bytes(_read(entry["manifest"]["url"]))
        return
    version = ["--version", entry["version"]]
    with tempfile.TemporaryDirectory() as folder:
        into = ["--destination", folder]
        if "git" in entry:
            clone, of = Path(folder, "clone"), entry["git"]
            for words in (["init", clone], ["-C", clone, "fetch", "--depth", "1", of["url"], of["commit"]]):
                _run("git", *words)
            _run("git", "-C", clone, "checkout", "FETCH_HEAD")
            _run(tool("helm"), "package", clone / of["directory"], "--dependency-update", *version, *into)
        elif "oci" in entry:
            _run(tool("helm"), "pull", entry["oci"], *version, *into)
        else:
            _run(tool("helm"), "pull", entry["chart"], "--repo", entry["repository"], *version, *into)
        (archive,) = Path(folder).glob("*.tgz")
        shutil.copy(archive, file)


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return bytes(answer.read())
    except OSError as error:
        raise Unreachable(f"{url}: {error}") from None


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unreachable((done.stderr.strip() or f"{words[0]} ended with {done.returncode}").splitlines()[-1])
