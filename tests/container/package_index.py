"""The publishers' indexes on loopback, in their own formats: packages of the image's lists, GitHub, and AWS's pages."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainway.spec.facts.versions import VERSIONS_FILE, requirements_of
from trainway.spec.loader import load_versions

LISTS = VERSIONS_FILE.parents[3] / "container/requirements"
# What each list is required by, and what is published as sources.
SOURCES = {"s3torchconnector", "hyperpod-elastic-agent"}
UPLOADED = "2026-12-01T09:00:00Z"
Requirements = dict[tuple[str, str], list[str]]


@dataclass
class Index:
    """Files by their path on loopback, and the releases of packages."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    releases: dict[str, dict[str, str]] = field(default_factory=dict)
    requirements: dict[str, Sequence[str]] = field(default_factory=dict)

    def publish(self, name: str, version: str, requirements: Sequence[str], tag: str = "py3-none-any") -> None:
        """Publish a release of a package with its requirements: a wheel, or sources for a name of SOURCES."""
        stem = f"{name.replace('-', '_')}-{version}"
        lines = "".join(f"Requires-Dist: {each}\n" for each in requirements)
        metadata = f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n{lines}"
        built_with = [*_pins(LISTS / "build-tools.txt"), "setuptools"]
        is_sources = name in SOURCES
        file = f"{stem}.tar.gz" if is_sources else f"{stem}-{tag}.whl"
        content = _sources(stem, metadata, built_with) if is_sources else _wheel(stem, metadata)
        self.files |= {f"/files/{file}": content, f"/files/{file}.metadata": metadata.encode()}
        self.releases.setdefault(name, {})[version] = file
        self.requirements[name] = requirements

    def answer(self, path: str) -> tuple[bytes, str] | None:
        """Return what is served at a path with its type, or None."""
        if match := re.fullmatch(r"/simple/([^/]+)/", path):
            return self._simple(match[1]), "application/vnd.pypi.simple.v1+json"
        if match := re.fullmatch(r"/pypi/([^/]+)/json", path):
            return self._legacy(match[1]), "application/json"
        found = self.files.get(path)
        return None if found is None else (found, "application/octet-stream")

    def _simple(self, name: str) -> bytes:
        """https://packaging.python.org/en/latest/specifications/simple-repository-api (read 2026-12-01)"""
        files = [
            {
                "filename": file,
                "url": f"{self.address}/files/{file}",
                "hashes": {"sha256": self._sha256(file)},
                "core-metadata": file.endswith(".whl"),
            }
            for file in self.releases.get(name, {}).values()
        ]
        return json.dumps({"meta": {"api-version": "1.0"}, "name": name, "files": files}).encode()

    def _legacy(self, name: str) -> bytes:
        """https://docs.pypi.org/api/json (read 2026-12-01)"""
        releases = {
            version: [{"filename": file, "digests": {"sha256": self._sha256(file)}, "upload_time_iso_8601": UPLOADED}]
            for version, file in self.releases[name].items()
        }
        newest = max(releases, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
        info = {"version": newest, "requires_dist": self.requirements[name]}
        return json.dumps({"info": info, "releases": releases, "urls": releases[newest]}).encode()

    def _sha256(self, file: str) -> str:
        return hashlib.sha256(self.files[f"/files/{file}"]).hexdigest()


@contextlib.contextmanager
def served() -> Iterator[Index]:
    """Serve an index that has every package of the image's lists."""
    index = Index()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = index.answer(self.path.partition("?")[0])
            self.send_response(200 if found else 404)
            content, kind = found or (b"", "text/plain")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.address = f"http://127.0.0.1:{server.server_port}"
        _publish_lists(index)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield index
        server.shutdown()


def torch_requirements(version: str) -> list[str]:
    """Return what a PyTorch of the matrix requires, as its metadata has it."""
    [wheel] = [each for each in load_versions().pytorch if each.version == version]
    brought = _pins(LISTS / requirements_of("pytorch", version))
    pinned = [f"{name}=={pin}" for name, pin in brought.items() if name != "cuda-toolkit"]
    return [f'cuda-toolkit[cublas]=={wheel.cuda_toolkit}; platform_system == "Linux"', *pinned]


def _publish_lists(index: Index) -> None:
    """Publish each package of the lists. One package of a list requires the others, and brings them into it."""
    pins = [(name, version) for file in sorted(LISTS.iterdir()) for name, version in _pins(file).items()]
    roots = _roots()
    for name, version in dict.fromkeys([*pins, *roots]):
        index.publish(name, version, roots.get((name, version), []), "cp312-cp312-manylinux_2_28_x86_64")


def _roots() -> Requirements:
    """Return the requirements of the packages that bring a list, by name and version."""
    versions, training = load_versions(), _pins(LISTS / "training.txt")
    found: Requirements = {("torch", each.version): torch_requirements(each.version) for each in versions.pytorch}
    for wheel in versions.pytorch:
        toolkit = _pins(LISTS / requirements_of("cuda-toolkit", wheel.cuda_toolkit))
        extras = [f'{name}=={pin}; extra == "nvcc"' for name, pin in toolkit.items() if name != "cuda-toolkit"]
        found["cuda-toolkit", toolkit["cuda-toolkit"]] = extras
    # Names alone, because add-ons require another version of a package.
    found["boto3", training["boto3"]] = [name for name in training if name != "boto3"]
    for engine in versions.transformer_engine:
        listed = _others(_pins(LISTS / requirements_of("transformer-engine", engine.version)))
        for part in ("transformer-engine", f"transformer-engine-cu{engine.cuda}", "transformer-engine-torch"):
            found[part, engine.version] = listed
    for key, package, releases in (
        ("nemo", "nemo-automodel", versions.nemo),
        ("flash-attention", "flash-attn-4", versions.flash_attention),
        ("hyperpod-elastic-agent", "hyperpod-elastic-agent", versions.hyperpod_elastic_agent),
    ):
        for each in releases:
            found[package, each.version] = _others(_pins(LISTS / requirements_of(key, each.version)), package)
    return found


def _others(pins: Mapping[str, str], name: str = "") -> list[str]:
    return [f"{each}=={version}" for each, version in pins.items() if each != name]


def _pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\S+)==(\S+) \\$", file.read_text(encoding="utf-8"), re.MULTILINE))


def _wheel(stem: str, metadata: str) -> bytes:
    info, buffer = f"{stem}.dist-info", io.BytesIO()
    contents = {f"{info}/METADATA": metadata, f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n"}
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for path, text in contents.items()
    ]
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": "\n".join([*rows, f"{info}/RECORD,,"])}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return buffer.getvalue()


def _sources(stem: str, metadata: str, built_with: Sequence[str]) -> bytes:
    project = f"[build-system]\nrequires = {json.dumps(list(built_with))}\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, text in {"PKG-INFO": metadata, "pyproject.toml": project}.items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()
