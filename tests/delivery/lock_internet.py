"""A registry and a chart repository on loopback, which have images and charts of delivery/mirror.yaml."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.delivery.conftest import listed
from tests.kubernetes_tools import tool
from tests.registry import programs, push_image, registry


@dataclass
class Internet:
    """A registry and a chart repository on loopback, in the place of those of the list."""

    root: Path
    registry: str
    repository: str

    def push(self, name: str, content: str, tag: str | None = None) -> str:
        """Publish an image of the list, and return its digest."""
        image = listed("images", name)
        reference = f"{self.registry}/{image['repository']}:{tag or image['tag']}"
        return push_image(self.root, reference, f"{name} {content}")

    def publish(self, name: str, content: str, version: str | None = None) -> str:
        """Publish a chart of the list where the list says, and return the SHA-256 of its archive."""
        chart = listed("charts", name)
        folder, served = self.root / "charts" / name, self.root / "repository"
        folder.mkdir(parents=True, exist_ok=True)
        description = {"apiVersion": "v2", "name": name, "version": version or chart["version"], "description": content}
        (folder / "Chart.yaml").write_text(yaml.safe_dump(description))
        self.helm("package", str(folder), "--destination", str(served))
        archive = served / f"{name}-{description['version']}.tgz"
        if "oci" in chart:
            place = chart["oci"].removeprefix("oci://").rpartition("/")[0]
            self.helm("push", str(archive), f"oci://{self.registry}/{place}", "--plain-http")
        else:
            self.helm("repo", "index", str(served))
        return hashlib.sha256(archive.read_bytes()).hexdigest()

    def helm(self, *words: str) -> None:
        """Run helm with files of its own."""
        subprocess.run([tool("helm"), *words], env=self.variables, capture_output=True, check=True, timeout=300)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of somebody on this internet."""
        path = f"{programs()}{os.pathsep}{tool('helm').parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.root)}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def internet(tmp_path: Path) -> Iterator[Internet]:
    root = tmp_path / "internet"
    (root / ".config/containers").mkdir(parents=True)
    (root / "repository").mkdir()
    handler = functools.partial(QuietHandler, directory=str(root / "repository"))
    with registry(root) as address, http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # skopeo finds the registries of the list here.
        # https://github.com/containers/image/blob/b16716cbaf98eb5306113e3d0a974da010ceb6bd/docs/containers-registries.conf.5.md
        # (read 2026-11-29)
        hosts = ("registry.k8s.io", "quay.io", "602401143452.dkr.ecr.us-west-2.amazonaws.com")
        tables = [
            f'[[registry]]\nprefix = "{host}"\nlocation = "{address}/{host}"\ninsecure = true\n' for host in hosts
        ]
        (root / ".config/containers/registries.conf").write_text("".join(tables))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Internet(root, address, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
