"""OCI layouts of images that are made here, of a few files each."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
Layer = Mapping[str, str]
"""Files by path, with their text. A text that begins with -> is the target of a link."""

PLUGIN, FABRIC = "opt/amazon/ofi-nccl/lib", "opt/amazon/efa/lib"
DPKG = """\
Package: libnccl-ofi
Status: install ok installed
Version: 1.20.0-1

Package: libfabric1-aws
Status: install ok installed
Version: 2.4.0amzn5.0

Package: openmpi40-aws
Status: deinstall ok config-files
Version: 4.1.7-1
"""
WHOLE: tuple[Layer, ...] = (
    {
        "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
        "usr/lib/python3/dist-packages/torch-2.13.0.dist-info/METADATA": "",
        "usr/lib/python3/dist-packages/nvidia_nccl_cu13-2.29.7.dist-info/METADATA": "",
        "usr/local/lib/libcudart.so": "->libcudart.so.13",
        "usr/local/lib/libcudart.so.13": "",
        "etc/ld.so.conf.d/local.conf": "/usr/local/lib\n",
    },
    {
        "opt/amazon/efa_installed_packages": "# EFA installer version: 1.49.0\n",
        "var/lib/dpkg/status": DPKG,
        f"{FABRIC}/libfabric.so.1": "->libfabric.so.1.30.0",
        f"{FABRIC}/libfabric.so.1.30.0": "",
        f"{PLUGIN}/libnccl-net-ofi.so": "",
        f"{PLUGIN}/libnccl-net.so": "->libnccl-net-ofi.so",
    },
)
ENVIRONMENT = {"LD_LIBRARY_PATH": f"/{PLUGIN}:/{FABRIC}", "NCCL_NET_PLUGIN": "ofi"}


def packed(layer: Layer, compression: str = "gzip") -> bytes:
    """Return a layer as an archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, text in layer.items():
            entry = tarfile.TarInfo(path)
            if text.startswith("->"):
                entry.type, entry.linkname = tarfile.SYMTYPE, text.removeprefix("->")
                archive.addfile(entry)
            else:
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
    if compression == "zstd":
        return subprocess.run(["zstd", "-cq"], input=made.getvalue(), stdout=subprocess.PIPE, check=True).stdout
    return gzip.compress(made.getvalue(), mtime=0) if compression == "gzip" else made.getvalue()


def write_layout(
    directory: Path,
    layers: Sequence[Layer] = WHOLE,
    environment: Mapping[str, str] | None = None,
    history: Sequence[str] = (),
    compression: str = "gzip",
) -> Path:
    """Write an image as an OCI layout, and return its directory."""
    (directory / "blobs/sha256").mkdir(parents=True)
    stored = [packed(layer, compression) for layer in layers]
    plain = [packed(layer, "none") for layer in layers]
    kinds = {"gzip": "+gzip", "zstd": "+zstd"}
    listed = [
        _blob(directory, each, f"application/vnd.oci.image.layer.v1.tar{kinds.get(compression, '')}") for each in stored
    ]
    variables = [f"{name}={value}" for name, value in (ENVIRONMENT if environment is None else environment).items()]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": variables},
        "history": [{"created_by": each, "empty_layer": True} for each in history],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in plain]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _json(directory, config, "application/vnd.oci.image.config.v1+json"),
        "layers": listed,
    }
    entry = {**_json(directory, manifest, MANIFEST), "platform": {"architecture": "amd64", "os": "linux"}}
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    index = {"schemaVersion": 2, "manifests": [entry]}
    (directory / "index.json").write_text(json.dumps(index), encoding="utf-8")
    return directory


def _blob(layout: Path, content: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _json(layout: Path, value: object, kind: str) -> dict[str, Any]:
    return _blob(layout, json.dumps(value).encode(), kind)
