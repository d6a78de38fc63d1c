"""The published definitions of the kinds that Trainway renders, found on this machine or fetched, and verified.

`definitions.yaml` names each definition with its project, revision, and checksum. The checksum covers what the API
server validates by: the group, the kind, the scope, and each version's schema without its descriptions. A copy without
descriptions is therefore the same definition.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.synthesis import ROOT

DATA = Path(__file__).with_name("definitions.yaml")
# A directory with the definitions, each in a file named as kubectl names it, for example queues.scheduling.run.ai.yaml.
VARIABLE = "TRAINWAY_KUBERNETES_DEFINITIONS"
BESIDE = ROOT.parent / "shared" / "kubernetes" / "crds"
FETCHED = ROOT / "build" / "kubernetes-definitions"
FETCH_SECONDS = 20
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Definition:
    """Where a kind's definition is published, and which version of it is read.

    `name` is the definition's own, such as `queues.scheduling.run.ai`. `embeds` names the kinds that stand in an object
    of this kind, by the path to each.
    """

    kind: str
    version: str
    name: str
    source: str
    sha256: str
    embeds: dict[str, str]

    @property
    def api_version(self) -> str:
        return f"{self.name.partition('.')[2]}/{self.version}"


class Missing(Exception):
    """No directory has the definition, and it cannot be fetched."""


@cache
def data() -> dict[str, Any]:
    """Return the content of definitions.yaml."""
    content: dict[str, Any] = yaml.load(DATA.read_text(encoding="utf-8"), _Loader)
    return content


@cache
def definitions() -> dict[tuple[str, str], Definition]:
    """Return every definition by its apiVersion and kind."""
    found = [
        Definition(
            kind=kind["kind"],
            version=kind["version"],
            name=name,
            source=f"https://raw.githubusercontent.com/{project}/{of['revision']}/"
            + of["path"].format(plural=name.partition(".")[0], group=name.partition(".")[2]),
            sha256=kind["sha256"],
            embeds=kind.get("embeds", {}),
        )
        for project, of in data()["projects"].items()
        for name, kind in of["definitions"].items()
    ]
    return {(each.api_version, each.kind): each for each in found}


@cache
def published(name: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of that name; raises Missing, and ValueError if its checksum is another."""
    definition = next(each for each in definitions().values() if each.name == name)
    content = yaml.load(_find(definition).read_text(encoding="utf-8"), _Loader)
    if checksum(content) != definition.sha256:
        raise ValueError(f"{_find(definition)} has checksum {checksum(content)}, and {DATA.name} has another")
    found: dict[str, Any] = content
    return found


def schema_of(definition: Definition) -> dict[str, Any]:
    """Return the structural schema of the definition's version."""
    (version,) = [each for each in published(definition.name)["spec"]["versions"] if each["name"] == definition.version]
    assert version["served"], f"{definition.name} does not serve {definition.version}"
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256 of what the API server validates by."""
    spec = content["spec"]
    versions = [
        {"name": each["name"], "served": each["served"], "schema": _plain(each["schema"]["openAPIV3Schema"])}
        for each in spec["versions"]
    ]
    what = {"group": spec["group"], "kind": spec["names"]["kind"], "scope": spec["scope"], "versions": versions}
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def package_file() -> str:
    """Return the source of the module with the typed model of HyperPodPyTorchJob; raises Missing."""
    package = data()["package"]
    name = f"{package['name'].replace('-', '_')}-{package['version']}-py3-none-any.whl"
    wheel = next((each / name for each in _directories() if (each / name).is_file()), None)
    if wheel is None:
        wheel = FETCHED / name
        _download_package(f"{package['name']}=={package['version']}")
    if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()) != package["sha256"]:
        raise ValueError(f"{wheel} has checksum {found}, and {DATA.name} has another")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(package["module"]).decode()


def need_definitions() -> None:
    """Skip the calling test, with the reason, where a definition cannot be had. Fails in continuous integration."""
    try:
        for definition in definitions().values():
            published(definition.name)
        package_file()
    except Missing as missing:
        if "CI" in os.environ:
            pytest.fail(f"{missing}; name a directory that has it in {VARIABLE}")
        pytest.skip(f"{missing}; name a directory that has it in {VARIABLE}")


def _directories() -> list[Path]:
    named = os.environ.get(VARIABLE)
    return [*([Path(named)] if named else []), BESIDE, FETCHED]


def _find(definition: Definition) -> Path:
    file = f"{definition.name}.yaml"
    there = next((each / file for each in _directories() if each != FETCHED and (each / file).is_file()), None)
    # The name has the checksum, so that a file of an earlier revision is not taken for the one that is wanted.
    fetched = FETCHED / f"{definition.name}-{definition.sha256[:16]}.yaml"
    return there or (fetched if fetched.is_file() else fetch(definition.source, fetched))


@cache
def fetch(source: str, file: Path) -> Path:
    try:
        with urllib.request.urlopen(source, timeout=FETCH_SECONDS) as answer:
            content = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise Missing(f"{source} cannot be read: {error}") from error
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@cache
def _download_package(requirement: str) -> None:
    """Download the wheel without its dependencies, which ask for other versions than this project's."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, f"--dest={FETCHED}", requirement], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"pip cannot download {requirement}: {done.stderr.strip()[-200:]}")


def _plain(node: Any) -> Any:
    """Return the schema without descriptions. A property that is called `description` stays."""
    if isinstance(node, dict):
        texts = [key for key, value in node.items() if key == "description" and isinstance(value, str)]
        return {key: _plain(value) for key, value in node.items() if key not in texts}
    return [_plain(each) for each in node] if isinstance(node, list) else node
