"""The command by which versions enter the repository, with the publishers' indexes on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.container.package_index import Index, served, torch_requirements
from tests.fresh_checkout import fresh_checkout
from trainway.spec.facts.versions import VERSIONS_FILE, combination_named
from trainway.spec.loader import load_versions

TEXT = VERSIONS_FILE.read_text(encoding="utf-8")
CURRENT = combination_named(load_versions(), "current")
# In the words of the notes of 1.21.1.
NOTES = """\
The 1.30.0 release series has been tested with NCCL v2.32.3-1, and NCCL v2.33.1-1 while maintaining backward \
compatibility with older NCCL versions (NCCL v2.17.1 and later).

This release has been tested with Libfabric v2.9.0amzn1.0. The plugin requires at least Libfabric v1.11.0, and \
compiling AWS-specific support requires at least Libfabric v1.22.0. GPU-Initiated Networking (GIN) with the kernel \
backend requires at least Libfabric v2.6.0.
"""
CHANGELOG = """\
# Elastic Fabric Adapter release notes

| Version | Changes | Release date |
| --- | --- | --- |
| 1.60.0 |  + **Upgrade to [ libfabric 2.9.0amzn1.0](https://github.com/aws/libfabric)** <br />+ **Upgrade to \
[Amazon OFI NCCL Plugin 1.30.0](https://github.com/aws/aws-ofi-nccl)**   | December 01, 2026 |
| 1.51.0 |  + **Upgrade to [ libfabric 2.7.0amzn2.0](https://github.com/aws/libfabric)**   | October 22, 2026 |
"""
HOSTS = ("pypi.org", "api.github.com", "github.com", "docs.aws.amazon.com", "efa-installer.amazonaws.com")


@pytest.fixture
def index() -> Iterator[Index]:
    """Indexes without anything newer than the matrix."""
    with served() as index:
        versions = load_versions()
        installer = versions.efa_installers[-1]
        index.files["/AWSEC2/latest/UserGuide/efa-changelog.md"] = (
            f"| {installer.version} | + libfabric {installer.libfabric} <br />+ Amazon OFI NCCL Plugin "
            f"{installer.aws_ofi_nccl} | October 22, 2026 |\n"
        ).encode()
        index.files["/repos/NVIDIA/nccl-tests/tags"] = json.dumps([{"name": "v2.17.6"}, {"name": "v2.9.0"}]).encode()
        yield index


def refresh(checkout: Path, index: Index, *words: str) -> tuple[int, str]:
    """Run the command of a checkout for the versions, and return its status and its output."""
    command = [sys.executable, "-m", "trainway.spec.refresh_versions", "versions", *words]
    command += [word for host in HOSTS for word in ("--at", f"{host}={index.address}")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "UV_"))}
    told = {"PYTHONPATH": str(checkout), "UV_DEFAULT_INDEX": f"{index.address}/simple"}
    told["UV_CACHE_DIR"] = str(checkout.with_name("cache"))
    done = subprocess.run(
        command, cwd=checkout, env=kept | told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.exhaustive
def test_a_newer_pytorch_goes_through_rows_lists_and_pages_to_green_tests_in_one_command(
    index: Index, tmp_path: Path
) -> None:
    assert CURRENT
    checkout = fresh_checkout(tmp_path / "checkout")
    index.publish("torch", "9.9.0", torch_requirements(CURRENT.pytorch), "cp312-cp312-manylinux_2_28_x86_64")
    tests = ["tests/container/test_versions.py", "tests/container/test_lock.py", "tests/spec/test_fabric.py"]
    status, said = refresh(checkout, index, "--test", *(word for each in tests for word in ("--only", each)))
    # No public source states the checksum of the newest installer, and this index does not serve it.
    assert "not read: " in said and "aws-efa-installer" in said
    assert "pytorch 9.9.0: released 2026-12-01; requires CUDA" in said, said
    assert "combinations pytorch-9.9: PyTorch 9.9.0, EFA installer" in said, said
    assert " passed" in said and " failed" not in said, said
    assert status == 1, "what was not read is not forgotten"
    document = yaml.safe_load((checkout / VERSIONS_FILE.relative_to(VERSIONS_FILE.parents[3])).read_text())
    [combination] = [each for each in document["combinations"] if each["name"] == "pytorch-9.9"]
    assert document["channels"]["current"] == "pytorch-9.9" and combination["evidence"] == CURRENT.evidence
    listed = checkout / "container/requirements/pytorch-9.9.0.txt"
    assert "nvidia-nccl-cu13==" in listed.read_text()
    assert "| `current` | `pytorch-9.9` |" in (checkout / "docs/image.md").read_text()
    before = {file: file.read_bytes() for file in changeable(checkout)}
    _, said = refresh(checkout, index)
    assert "versions.yaml has everything that was read" in said
    assert {file: file.read_bytes() for file in changeable(checkout)} == before


def changeable(checkout: Path) -> list[Path]:
    return [
        *checkout.glob("container/requirements/*"),
        checkout / "trainway/spec/facts/versions.yaml",
        checkout / "docs/image.md",
    ]


def test_an_installer_its_plugin_and_its_nccl_are_found_with_their_promises(index: Index, tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    index.files["/AWSEC2/latest/UserGuide/efa-changelog.md"] = CHANGELOG.encode()
    index.files["/aws-efa-installer-1.60.0.tar.gz"] = b"installer"
    index.files["/repos/aws/aws-ofi-nccl/releases/tags/v1.30.0"] = json.dumps({"body": NOTES}).encode()
    index.files["/repos/NVIDIA/nccl-tests/tags"] = json.dumps([{"name": "v2.20.0"}, {"name": "v2.9.0"}]).encode()
    index.files["/NVIDIA/nccl-tests/archive/v2.20.0.tar.gz"] = b"tests"
    index.publish("nvidia-nccl-cu13", "2.33.1", [], "py3-none-manylinux_2_27_x86_64")
    before = (checkout / "trainway/spec/facts/versions.yaml").read_text()
    status, said = refresh(checkout, index, "--check")
    assert status == 1
    for line in (
        "efa_installers 1.60.0: carries libfabric 2.9.0amzn1.0 and aws-ofi-nccl 1.30.0",
        "aws_ofi_nccl 1.30.0: tested with 2.32.3 or 2.33.1; called compatible with NCCL 2.17.1 and newer",
        "nccl 2.33.1: a combination can have it",
        "nccl_tests 2.20.0: the build compiles them",
    ):
        assert line in said, said
    assert (checkout / "trainway/spec/facts/versions.yaml").read_text() == before
