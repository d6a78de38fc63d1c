"""What registries and chart repositories publish: the digest of an image, and the SHA-256 of a chart's archive.

Each function raises Unread with the reason if nothing can be read.
"""

import hashlib
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from delivery.mirror_list import from_repository

# A registry that gives no answer ends no run of the command.
SECONDS = 120
# ChartLayerMediaType of
# https://github.com/helm/helm/blob/14066a07e162b457a21b173d1779ddf7701e2bc6/pkg/registry/constants.go (read 2026-11-29)
CHART_ARCHIVE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
INSTALL = {
    "skopeo": "Install your system's package `skopeo`, or run `scripts/install_registry` on Debian and add "
    '"$(scripts/install_registry --where)/usr/bin" to PATH',
    "helm": 'Run `scripts/install_kubernetes_tools`, and add "$(scripts/install_kubernetes_tools --where)" to PATH',
}


class Unread(Exception):
    """The reason why nothing was read. `needs_login` says that nobody without credentials can read it."""

    def __init__(self, reason: str, *, needs_login: bool = False) -> None:
        super().__init__(reason)
        self.needs_login = needs_login


def program_for(entry: dict[str, Any]) -> str | None:
    """Return the program that reads an image or a chart of the list, or None if the entry cannot be read."""
    if entry.get("requires_login"):
        return None
    return "helm" if "chart" in entry and "oci" not in entry else "skopeo"


def published(entry: dict[str, Any]) -> str:
    """Return the digest of an image of the list, or the SHA-256 of the archive of one of its charts."""
    return _chart_sum(entry) if "chart" in entry else _image_digest(entry)


def _image_digest(image: dict[str, Any]) -> str:
    """Return the digest of the manifest of an image. An image for several platforms has an image index as its manifest.

    A digest is that of the bytes:
    https://github.com/opencontainers/image-spec/blob/main/descriptor.md (read 2026-11-29)
    """
    manifest, _ = _manifest(f"{image['repository']}:{image['tag']}")
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def _chart_sum(chart: dict[str, Any]) -> str:
    assert from_repository(chart), chart
    if chart.get("requires_login"):
        raise Unread(
            "its repository requires a login. A first copy records the SHA-256 in the bucket of a platform. You can "
            "write that into the lock",
            needs_login=True,
        )
    if "oci" in chart:
        # A tag has no plus sign: https://helm.sh/docs/next/topics/registries (read 2026-11-29)
        return _layer_sum(f"{chart['oci'].removeprefix('oci://')}:{chart['version'].replace('+', '_')}")
    with tempfile.TemporaryDirectory() as folder:
        # Neither the repositories nor the caches of whoever runs the command.
        homes = {f"HELM_{each}_HOME": f"{folder}/{each}" for each in ("CONFIG", "CACHE", "DATA")}
        words = ["--repo", chart["repository"], "--version", chart["version"], "--destination", folder]
        output(["helm", "pull", chart["chart"], *words], homes)
        archives = list(Path(folder).glob("*.tgz"))
        if len(archives) != 1:
            raise Unread(f"`helm pull` left {len(archives)} archives, not 1")
        return hashlib.sha256(archives[0].read_bytes()).hexdigest()


def _layer_sum(reference: str) -> str:
    """Return the SHA-256 of the layer that is the packed archive of a chart in a registry."""
    _, manifest = _manifest(reference)
    layers = manifest.get("layers") or []
    digests = [layer["digest"] for layer in layers if layer["mediaType"] == CHART_ARCHIVE]
    if len(digests) != 1 or not re.fullmatch("sha256:[0-9a-f]{64}", digests[0]):
        kinds = ", ".join(layer["mediaType"] for layer in layers) or "none"
        raise Unread(f"{reference} is no chart. A chart has one layer {CHART_ARCHIVE}, and this has: {kinds}")
    return str(digests[0].removeprefix("sha256:"))


def _manifest(reference: str) -> tuple[bytes, dict[str, Any]]:
    """Return the manifest of a tag, as the registry has it and parsed.

    https://github.com/containers/skopeo/blob/main/docs/skopeo-inspect.1.md (read 2026-11-29)
    """
    try:
        manifest = output(["skopeo", "inspect", "--raw", "--retry-times", "2", f"docker://{reference}"])
    except Unread as why:
        if login := _login_of(reference):
            raise Unread(f"{why}. {login}", needs_login=True) from None
        raise
    try:
        parsed = json.loads(manifest)
    except ValueError as error:
        raise Unread(f"the manifest of {reference} is not JSON: {error}") from None
    # A manifest of schema 1 has its signatures inside, and its digest leaves them out.
    # https://github.com/distribution/distribution/blob/0fb207c822129834b1e171208cf2d49bdd518e13/docs/spec/manifest-v2-1.md
    # (read 2026-11-29)
    if not isinstance(parsed, dict) or parsed.get("schemaVersion") != 2:
        raise Unread(f"the manifest of {reference} does not have the schema version 2")
    return manifest, parsed


def _login_of(reference: str) -> str | None:
    """Return how to log in to a registry that lets in AWS accounts only, or None for another registry."""
    registry = reference.partition("/")[0]
    if not (match := re.fullmatch(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?", registry)):
        return None
    return (
        f"The registry lets in AWS accounts only. Log in with `aws ecr get-login-password --region {match[1]} | "
        f"skopeo login --username AWS --password-stdin {registry}`, and run the command again"
    )


def output(command: list[str], variables: dict[str, str] | None = None) -> bytes:
    """Return what a program prints; raise Unread with the last line of its errors."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unread(f"`{' '.join(command[:2])}` gave no answer within {SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"{command[0]} ended with status {done.returncode}"
        last = said.splitlines()[-1]
        # skopeo writes time="…" level=fatal msg="…".
        message = re.search(r'msg="((?:[^"\\]|\\.)*)"', last)
        raise Unread(message[1].replace('\\"', '"') if message else last)
    return done.stdout
