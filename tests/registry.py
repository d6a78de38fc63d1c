"""Debian's container registry on loopback, and skopeo, both of which `scripts/install_registry` unpacks."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.ports import free_port

INSTALL = Path(__file__).parents[1] / "scripts" / "install_registry"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@cache
def programs() -> Path:
    """Return the folder of `skopeo` and `docker-registry`.

    Where they are not unpacked, skip the test, or raise FileNotFoundError in continuous integration.
    """
    where = subprocess.run([INSTALL, "--where"], check=True, capture_output=True, text=True).stdout.strip()
    folder = Path(where) / "usr/bin"
    if not (folder / "docker-registry").exists():
        reason = f"{folder} has no docker-registry; scripts/install_registry unpacks it"
        if "CI" in os.environ:
            raise FileNotFoundError(reason)
        pytest.skip(reason)
    return folder


@contextlib.contextmanager
def registry(directory: Path) -> Iterator[str]:
    """Run a registry that keeps its content in a directory, and yield its address, for example `127.0.0.1:12345`."""
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(directory / "content")}},
        "http": {"addr": address},
    }
    (directory / "config.yml").write_text(yaml.safe_dump(settings))
    command = [str(programs() / "docker-registry"), "serve", str(directory / "config.yml")]
    with (directory / "said").open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as running:
        try:
            _wait_for(f"http://{address}/v2/", running)
            yield address
        finally:
            running.terminate()


def push_image(directory: Path, reference: str, content: str) -> str:
    """Push an image for two platforms with one file, and return the digest of its index."""
    layout = directory / "layout" / hashlib.sha256(f"{reference} {content}".encode()).hexdigest()
    (layout / "blobs/sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as packed:
        packed.addfile(tarfile.TarInfo(content))
    layer = _blob(layout, gzip.compress(archive.getvalue(), mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    manifests = []
    for architecture in ("amd64", "arm64"):
        platform = {"architecture": architecture, "os": "linux"}
        files = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(archive.getvalue()).hexdigest()}"]}
        config = _json(layout, {**platform, "rootfs": files}, "application/vnd.oci.image.config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
        manifests.append({**_json(layout, manifest, MANIFEST), "platform": platform})
    index = _json(layout, {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}, INDEX)
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    options = ["--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests", "--dest-tls-verify=false"]
    subprocess.run([programs() / "skopeo", *options, f"oci:{layout}", f"docker://{reference}"], check=True, timeout=300)
    return str(index["digest"])


def _blob(layout: Path, content: bytes, kind: str) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _json(layout: Path, value: object, kind: str) -> dict[str, object]:
    return _blob(layout, json.dumps(value).encode(), kind)


def _wait_for(address: str, running: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers. Raise RuntimeError if it ends instead."""
    while running.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=60):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the registry ended with status {running.returncode}")
