"""What nodes install beside their image is the pinned file, the pinned commit, or what the checkout brings."""

import hashlib
import subprocess
from pathlib import Path

import pytest
import yaml

from delivery.node_packages import lines
from tests.delivery.conftest import CURL
from tests.delivery.test_scripts import SLURM

ENROOT, CAPS, PYXIS = "enroot_4.1.2-1_amd64.deb", "enroot+caps_4.1.2-1_amd64.deb", "pyxis-0.24.0.tar"


@pytest.fixture
def published(aws) -> Path:
    """What publishers have, with checksums and the commit in the workshop's copy of the list; git is real."""
    folder = aws.root / "published"
    folder.mkdir()
    path = aws.root / "delivery/node_packages.yaml"
    document = yaml.safe_load(path.read_text())
    for file in document["packages"][0]["files"]:
        package = folder / file["url"].rpartition("/")[2]
        package.write_text(f"{package.name} as published")
        file["sha256"] = hashlib.sha256(package.read_bytes()).hexdigest()
    source = folder / "pyxis"
    source.mkdir()
    (source / "Makefile").write_text("all:\n")
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=x"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    document["sources"][0] |= {"git": f"file://{source}", "commit": commit}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    aws.environment["PUBLISHED"] = str(folder)
    aws.stand_in("curl", CURL)
    return folder


def change(aws, name: str, **values: object) -> None:
    path = aws.root / "delivery/node_packages.yaml"
    document = yaml.safe_load(path.read_text())
    for file in document["packages"][0]["files"]:
        if file["url"].endswith(f"/{name}"):
            file |= values
    path.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.mark.usefixtures("published")
def test_the_stage_delivers_them_beside_the_scripts_with_their_checksums(aws):
    done = aws.run("scripts.sh", **SLURM, CONTAINERS="true")
    assert done.returncode == 0, done.stderr
    packages = aws.root / "s3/synced/packages"
    assert {path.name for path in packages.iterdir()} == {ENROOT, CAPS, PYXIS, "SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=packages, check=True)
    listed = subprocess.run(["tar", "-tf", packages / PYXIS], check=True, capture_output=True, text=True).stdout
    assert listed.split() == ["pyxis-0.24.0/", "pyxis-0.24.0/Makefile"]


@pytest.mark.usefixtures("published")
def test_nothing_is_fetched_for_a_platform_that_does_not_ask(aws):
    assert aws.run("scripts.sh", **SLURM).returncode == 0
    assert not (aws.root / "s3/synced/packages").exists()
    assert not aws.called("curl")


def test_what_is_not_the_pinned_file_is_not_delivered(aws, published: Path):
    (published / ENROOT).write_text("another")
    done = aws.run("scripts.sh", **SLURM, CONTAINERS="true")
    assert done.returncode == 1
    assert "the checksum of https://github.com/NVIDIA/enroot/releases/download/v4.1.2/enroot_4.1.2" in done.stderr
    assert not aws.called("aws", "s3", "sync")


@pytest.mark.usefixtures("published")
def test_what_nobody_knows_the_checksum_of_is_not_fetched(aws):
    change(aws, CAPS, sha256=None)
    done = aws.run("scripts.sh", **SLURM, CONTAINERS="true")
    assert done.returncode == 1
    assert f"no checksum of {CAPS} is known" in done.stderr
    assert not any("caps" in word for call in aws.called("curl") for word in call)
    # But it may be in the checkout.
    (aws.root / "lifecycle_scripts/packages").mkdir()
    (aws.root / f"lifecycle_scripts/packages/{CAPS}").write_text("brought")
    assert aws.run("scripts.sh", **SLURM, CONTAINERS="true").returncode == 0
    assert (aws.root / f"s3/synced/packages/{CAPS}").read_text() == "brought"


@pytest.mark.usefixtures("published")
def test_a_file_of_the_checkout_has_the_checksum_that_is_known(aws):
    (aws.root / "lifecycle_scripts/packages").mkdir()
    (aws.root / f"lifecycle_scripts/packages/{ENROOT}").write_text("brought")
    done = aws.run("scripts.sh", **SLURM, CONTAINERS="true")
    assert done.returncode == 1
    assert f"the checksum of lifecycle_scripts/packages/{ENROOT} is not the pinned one" in done.stderr


@pytest.mark.usefixtures("published")
def test_a_closed_network_gets_them_from_a_checkout_that_somebody_prepared(aws):
    closed = {**SLURM, "CONTAINERS": "true", "NETWORK_ACCESS": "closed"}
    done = aws.run("scripts.sh", **closed)
    assert done.returncode == 1
    assert f"a closed network cannot fetch what is missing: {ENROOT}, {CAPS}, {PYXIS}" in done.stderr
    assert "bash delivery/node_packages.sh lifecycle_scripts/packages" in done.stderr
    assert not aws.called("curl")
    own = aws.root / "lifecycle_scripts/packages"
    assert aws.run("node_packages.sh", str(own)).returncode == 0
    fetched = len(aws.called("curl"))
    assert aws.run("scripts.sh", **closed).returncode == 0
    assert len(aws.called("curl")) == fetched
    assert {path.name for path in (aws.root / "s3/synced/packages").iterdir()} == {ENROOT, CAPS, PYXIS, "SHA256SUMS"}


def test_every_file_is_pinned_or_says_that_nobody_could_read_its_checksum():
    document = yaml.safe_load((Path(__file__).parents[2] / "delivery/node_packages.yaml").read_text())
    for name, kind, location, pin in (line.split("\t") for line in lines(document)):
        assert location.startswith("https://")
        assert len(pin) == {"file": 64, "git": 40}[kind] or (kind, pin) == ("file", "-"), name
    assert all(each["source"] and each["read"] for kind in ("packages", "sources") for each in document[kind])
