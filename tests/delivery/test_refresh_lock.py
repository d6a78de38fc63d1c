"""The command that refreshes the lock reads a real registry and a real chart repository, and says what changed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from delivery.refresh_lock.__main__ import TESTS, written
from tests.data_files import read_yaml
from tests.delivery.conftest import ROOT, listed
from tests.delivery.lock_internet import Internet, internet

__all__ = ["internet"]

# Images and charts from registries, a chart from a repository, and what only a login can read.
IMAGES, CHARTS = ("kueue", "kuberay-operator", "dranet"), ("kueue", "kuberay-operator", "runai-cluster")
NEW = "9.9.9"


@dataclass
class Checkout:
    """A copy of the delivery whose list has a few entries, and whose lock knows no digest."""

    root: Path
    internet: Internet

    def __post_init__(self) -> None:
        shutil.copytree(ROOT / "delivery", self.root / "delivery")
        document = self.read("mirror.yaml")
        document["images"] = [image for image in document["images"] if image["name"] in IMAGES]
        document["charts"] = [chart for chart in document["charts"] if chart["chart"] in CHARTS]
        for chart in document["charts"]:
            if chart["chart"] == "kuberay-operator":
                chart["repository"] = self.internet.repository
        self.write_list(document)
        images = {image["name"]: {"tag": image["tag"], "digest": None} for image in document["images"]}
        charts = {chart["chart"]: {"version": chart["version"], "sha256": None} for chart in document["charts"]}
        self.write_lock({"images": images, "charts": charts})

    def write_list(self, document: dict[str, Any]) -> None:
        (self.root / "delivery/mirror.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def write_lock(self, lock: dict[str, Any]) -> None:
        (self.root / "delivery/mirror.lock.yaml").write_text(written(lock))

    def read(self, name: str) -> dict[str, Any]:
        return dict(read_yaml(self.root / "delivery" / name))

    @property
    def lock(self) -> dict[str, Any]:
        return self.read("mirror.lock.yaml")

    def pin(self, section: str, name: str, **values: str) -> None:
        """Change an entry of the lock."""
        lock = self.lock
        lock[section][name] |= values
        self.write_lock(lock)

    def change_version(self, name: str, version: str) -> None:
        """Change the version of the image and the chart of a name in the list."""
        document = self.read("mirror.yaml")
        for section, key, version_key in (("images", "name", "tag"), ("charts", "chart", "version")):
            for each in document[section]:
                if each[key] == name:
                    each[version_key] = version
        self.write_list(document)

    def run(self, *words: str, module: str = "delivery.refresh_lock") -> tuple[int, list[str]]:
        """Run a program of the checkout, and return its status and its lines."""
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=self.root,
            env=self.internet.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout.splitlines()


@pytest.fixture
def checkout(tmp_path: Path, internet: Internet) -> Checkout:
    return Checkout(tmp_path / "checkout", internet)


def test_what_is_published_is_written_once_and_is_what_the_stage_copies(checkout: Checkout, internet: Internet) -> None:
    digests = {name: internet.push(name, "first") for name in ("kueue", "kuberay-operator")}
    sums = {name: internet.publish(name, "first") for name in ("kueue", "kuberay-operator")}
    checkout.pin("images", "kuberay-operator", digest=digests["kuberay-operator"], stated_by="the release notes")
    status, lines = checkout.run()
    tag, version = listed("images", "kueue")["tag"], listed("charts", "kueue")["version"]
    assert status == 0, lines
    assert f"image kueue {tag}: null -> {digests['kueue']}" in lines
    assert f"chart kueue {version}: null -> sha256:{sums['kueue']}" in lines
    unread = [line.split()[:2] for line in lines if ": not read: " in line]
    assert unread == [["image", "dranet"], ["chart", "runai-cluster"]]
    assert lines[-1].startswith("Wrote ") and lines[-1].endswith(f"run `pytest -q {TESTS}`")
    lock = checkout.lock
    assert lock["images"]["kueue"] == {"tag": tag, "digest": digests["kueue"]}
    assert lock["images"]["kuberay-operator"]["stated_by"] == "the release notes"
    assert {name: lock["charts"][name]["sha256"] for name in sums} == sums
    # As the stage takes the chart from the registry.
    oci = listed("charts", "kueue")["oci"].removeprefix("oci://")
    pulled = internet.root / "pulled"
    pulled.mkdir()
    words = ["--version", version, "--destination", str(pulled), "--plain-http"]
    internet.helm("pull", f"oci://{internet.registry}/{oci}", *words)
    (archive,) = pulled.iterdir()
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == lock["charts"]["kueue"]["sha256"]
    # The second run finds nothing to do.
    for words in ([], ["--check"]):
        status, lines = checkout.run(*words)
        assert status == 0 and checkout.lock == lock
        assert not any("->" in line or line.startswith("Wrote") for line in lines), lines


def test_what_was_published_again_is_loud_and_not_written_until_it_is_accepted(
    checkout: Checkout, internet: Internet
) -> None:
    names = ("kueue", "kuberay-operator")
    before = {name: (internet.push(name, "first"), internet.publish(name, "first")) for name in names}
    assert checkout.run(*names)[0] == 0
    locked = checkout.lock
    after = {name: (internet.push(name, "again"), internet.publish(name, "again")) for name in names}
    for words in (["--check"], []):
        status, lines = checkout.run(*words, *names)
        warnings = [line for line in lines if line.startswith("WARNING: ")]
        assert status == 1 and len(warnings) == 4 and checkout.lock == locked
        for name in names:
            for old, new in zip(before[name], after[name], strict=True):
                (warning,) = [line for line in warnings if old in line]
                assert new in warning and "was published again" in warning
                assert f"run `python -m delivery.refresh_lock --accept {name}`" in warning
    status, lines = checkout.run("--accept", "kueue")
    assert status == 1 and len([line for line in lines if line.startswith("WARNING: ")]) == 2
    lock = checkout.lock
    assert (lock["images"]["kueue"]["digest"], lock["charts"]["kueue"]["sha256"]) == after["kueue"]
    assert lock["charts"]["kuberay-operator"] == locked["charts"]["kuberay-operator"]


def test_another_version_is_refused_by_the_stage_until_the_command_has_read_it(
    checkout: Checkout, internet: Internet
) -> None:
    first = internet.push("kueue", "first")
    internet.publish("kueue", "first")
    assert checkout.run("kueue")[0] == 0
    checkout.pin("images", "kueue", stated_by="the release notes of the former version")
    checkout.change_version("kueue", NEW)
    locked = checkout.lock
    # Nobody has published it yet.
    status, lines = checkout.run("kueue")
    assert status == 1 and checkout.lock == locked
    assert sum("not read, and left as it is: " in line and "manifest unknown" in line for line in lines) == 2, lines
    status, lines = checkout.run("charts", "kueue", module="delivery.mirror_list")
    assert status == 2 and f"chart kueue {NEW} (it has " in lines[0]
    digest, archive = internet.push("kueue", "new", NEW), internet.publish("kueue", "new", NEW)
    assert checkout.run("--check", "kueue")[0] == 1 and checkout.lock == locked
    status, lines = checkout.run("kueue")
    assert status == 0 and lines[0] == f"image kueue {listed('images', 'kueue')['tag']} -> {NEW}: {first} -> {digest}"
    assert checkout.lock["images"]["kueue"] == {"tag": NEW, "digest": digest}
    status, (line,) = checkout.run("charts", "kueue", module="delivery.mirror_list")
    assert status == 0 and line.split("\t")[4] == archive


def test_a_new_version_that_nobody_can_read_is_null_only_if_somebody_accepts_that(checkout: Checkout) -> None:
    checkout.change_version("dranet", NEW)
    before = checkout.lock
    status, (line, last) = checkout.run("dranet")
    assert status == 1 and checkout.lock == before and last.endswith("is unchanged")
    assert "Log in with `aws ecr get-login-password --region us-west-2 | skopeo login --username AWS" in line
    assert "run `python -m delivery.refresh_lock --accept dranet`" in line
    status, lines = checkout.run("dranet", "--accept", "dranet")
    assert status == 0 and "null, because it was not read: " in lines[0]
    assert checkout.lock["images"]["dranet"] == {"tag": NEW, "digest": None}


def test_entries_that_the_list_does_not_have_are_removed_and_new_ones_are_added(
    checkout: Checkout, internet: Internet
) -> None:
    names = ("kueue", "kuberay-operator")
    digest, _ = [internet.push(name, "first") for name in names]
    for name in names:
        internet.publish(name, "first")
    lock = checkout.lock
    lock["images"]["former"] = lock["images"].pop("kueue")
    checkout.write_lock(lock)
    # Somebody reads one entry alone.
    assert checkout.run("kueue")[0] == 0 and "former" in checkout.lock["images"]
    checkout.write_lock(lock)
    status, lines = checkout.run()
    assert status == 0 and f"image kueue {listed('images', 'kueue')['tag']}: new -> {digest}" in lines
    assert any(line.startswith("image former ") and "removed" in line for line in lines)
    assert list(checkout.lock["images"]) == [each["name"] for each in checkout.read("mirror.yaml")["images"]]


def test_a_program_that_is_not_installed_is_named_with_its_remedy(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "delivery.refresh_lock", "kueue", "kuberay-operator"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 2 and done.stdout == ""
    assert "helm is not installed. Run `scripts/install_kubernetes_tools`" in done.stderr
    assert "skopeo is not installed. Install your system's package `skopeo`" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kuueue"], "mirror.yaml has no kuueue to pin. It has aws-dranet, "),
        (["--accept", "kuueue"], "mirror.yaml has no kuueue to pin. It has aws-dranet, "),
        (["jobset", "--accept", "kueue"], "--accept kueue is not among the names to read. Add the name"),
        (["--check", "--accept", "kueue"], "not allowed with argument --check"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_read(words: list[str], said: str) -> None:
    command = [sys.executable, "-m", "delivery.refresh_lock", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2 and said in done.stderr


def test_the_lock_is_as_the_command_writes_it_and_the_tests_that_it_names_exist() -> None:
    file = ROOT / "delivery/mirror.lock.yaml"
    assert file.read_text(encoding="utf-8") == written(read_yaml(file))
    assert all((ROOT / each).exists() for each in TESTS.split())
