"""What nodes install beside their image is made of pinned commits, and of packages that apt has checked.

Git, make, gcc and dpkg-deb are real. The repositories are local: they have the layout of the published ones, and the
workshop's copy of the list pins their commits.
"""

import gzip
import hashlib
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from delivery.node_packages import sources
from delivery.tree_hash import tree_hash
from tests.delivery.conftest import ROOT
from tests.delivery.test_scripts import SLURM, bundled

ENROOT, PYXIS = "enroot_4.1.2-1_amd64.deb", "pyxis-0.24.0.tar"
DELIVERED = {PYXIS, ENROOT, "jammy/parallel_1_all.deb", "noble/parallel_1_all.deb", "SHA256SUMS"}
# As enroot's own: what is installed knows where its files are, and a submodule is needed to compile it.
MAKEFILE = """\
prefix ?= /usr/local
sysconfdir ?= $(prefix)/etc
override DESTDIR := $(abspath $(DESTDIR))
all: enroot bin/enroot-mount
enroot:
\techo '#!/bin/sh' >$@
\techo 'echo settings are in $(DESTDIR)$(sysconfdir)/enroot' >>$@
bin/enroot-mount: bin/enroot-mount.c
\t$(CC) -Ideps/musl/include -o $@ $<
install: all
\tinstall -d $(DESTDIR)$(sysconfdir)/enroot $(DESTDIR)$(exec_prefix)/bin $(DESTDIR)$(datarootdir)/enroot
\techo ENROOT_MOUNT_HOME no >$(DESTDIR)$(sysconfdir)/enroot/enroot.conf
\techo profile >$(DESTDIR)$(datarootdir)/enroot/apparmor.profile
\tinstall -m 755 enroot bin/enroot-mount $(DESTDIR)$(exec_prefix)/bin
"""
EXPORTERS = {f"exporters/{release}/prometheus-node-exporter_1_all.deb" for release in ("jammy", "noble")}
# apt: parallel depends on perl, and perl on what every Ubuntu has.
APT = r"""
case " $* " in
  *" --simulate "*" prometheus-node-exporter "*) echo "Inst prometheus-node-exporter (1 Ubuntu)" ;;
  *" --simulate "*" ubuntu-minimal "*) echo "Inst perl-base (1 Ubuntu)" ;;
  *" --simulate "*) printf 'Inst %s (1 Ubuntu)\n' perl-base parallel ;;
  *" download "*) touch "${!#}_1_all.deb" ;;
esac
"""


def repository(folder: Path, files: dict[str, str]) -> tuple[str, str]:
    """Make a repository with the files; return its address and its commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=x"], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return f"file://{folder}", done.stdout.strip()


@pytest.fixture
def published(aws) -> Path:
    """Create Git repositories that stand in for the publishers, and pin their commits in the list of packages."""
    folder = aws.root / "published"
    contents = {
        "deps/musl": {"include/answer.h": "#define ANSWER 42\n"},
        "enroot": {
            "Makefile": MAKEFILE,
            "bin/enroot-mount.c": '#include "answer.h"\nint main(void) { return ANSWER; }\n',
        },
        "pyxis": {"Makefile": "all:\n"},
    }
    for name in ("deps/linux-headers", "deps/makeself", "deps/makeself/test/bashunit"):
        contents[name] = {"README": name}
    made = {name: repository(folder / name.replace("/", "-"), files) for name, files in contents.items()}

    def pin(document: dict[str, Any]) -> None:
        for source in document["sources"]:
            source["git"], source["commit"] = made[source["name"]]
            for part in source.get("submodules", ()):
                part["git"], part["commit"] = made[part["path"]]
        tree = aws.root / "tree"
        for name, files in contents.items():
            if name != "pyxis":
                for file, text in files.items():
                    place = tree / ("" if name == "enroot" else name) / file
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(text)
        document["sources"][1]["nar_sha256"] = tree_hash(tree)
        # Any file is a keyring to the stand-in.
        document["ubuntu"]["keyring"] = str(aws.root / "calls")

    (aws.root / "calls").touch()
    change(aws, pin)
    aws.stand_in("apt-get", APT)
    return folder


def change(aws, edit: Callable[[dict[str, Any]], None]) -> None:
    path = aws.root / "delivery/node_packages.yaml"
    document = yaml.safe_load(path.read_text())
    edit(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def delivered(aws) -> set[str]:
    """Return the files that nodes get beside the folder's own README."""
    packages = aws.root / "s3/synced/yours/packages"
    return {path.relative_to(packages).as_posix() for path in packages.rglob("*") if path.is_file()} - {"README.md"}


@pytest.mark.usefixtures("published")
def test_the_stage_compiles_enroot_and_delivers_it_beside_the_scripts(aws, tmp_path: Path):
    bundled(aws, containers="wanted")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 0, done.stdout + done.stderr
    assert delivered(aws) == DELIVERED
    packages = aws.root / "s3/synced/yours/packages"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=packages, check=True)
    assert len((packages / "SHA256SUMS").read_text().splitlines()) == len(DELIVERED) - 1
    with tarfile.open(packages / PYXIS) as archive:
        assert sorted(archive.getnames()) == ["pyxis-0.24.0", "pyxis-0.24.0/Makefile"]
    root = tmp_path / "installed"
    subprocess.run(["dpkg-deb", "--extract", packages / ENROOT, root], check=True)
    subprocess.run(["dpkg-deb", "--control", packages / ENROOT, root / "DEBIAN"], check=True)
    # What is installed looks for its files where they are, not where they were made.
    said = subprocess.run([root / "usr/bin/enroot"], check=True, capture_output=True, text=True).stdout
    assert said == "settings are in /etc/enroot\n"
    # Compiled, with the submodule.
    assert subprocess.run([root / "usr/bin/enroot-mount"], check=False).returncode == 42
    assert (root / "etc/apparmor.d/enroot").read_text() == "profile\n"
    assert (root / "DEBIAN/conffiles").read_text() == "/etc/apparmor.d/enroot\n/etc/enroot/enroot.conf\n"
    assert "setcap cap_sys_admin+pe /usr/bin/enroot-mksquashovlfs" in (root / "DEBIAN/postinst").read_text()
    control = (root / "DEBIAN/control").read_text()
    assert "\nVersion: 4.1.2-1\n" in control and "parallel" in control and "squashfs-tools" in control


@pytest.mark.usefixtures("published")
def test_nothing_is_made_for_a_platform_without_containers(aws):
    for nothing in ({}, {"containers": "none", "exporters": False}):
        bundled(aws, **nothing)
        assert aws.run("scripts.sh", **SLURM).returncode == 0
        assert delivered(aws) == set()
    assert not aws.called("apt-get")


def test_node_exporter_is_delivered_for_every_release_and_nothing_compiled_for_it(aws, published: Path):
    bundled(aws, exporters=True)
    done = aws.run("scripts.sh", **SLURM, NETWORK_ACCESS="closed")
    assert done.returncode == 1
    assert "cannot fetch what is missing: exporters/jammy/, exporters/noble/." in done.stderr
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 0, done.stdout + done.stderr
    assert delivered(aws) == EXPORTERS | {"SHA256SUMS"}
    packages = aws.root / "s3/synced/yours/packages"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=packages, check=True)
    bundled(aws, containers="wanted", exporters=True)
    assert aws.run("scripts.sh", **SLURM).returncode == 0
    assert delivered(aws) == EXPORTERS | DELIVERED
    assert published.is_dir()


def test_the_program_of_the_collector_is_delivered_out_of_the_pinned_archive(aws, published: Path):
    (aws.root / "prometheus").write_text("a program")
    archive = aws.root / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        for name in ("prometheus", "promtool"):
            made.add(aws.root / "prometheus", f"prometheus-3/{name}")
    aws.stand_in("curl", f'while [[ "$1" != --output ]]; do shift; done; cp {archive} "$2"')
    pinned = {"program": "prometheus-3/prometheus", "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
    file = "collector/prometheus-3.13.1.gz"

    change(aws, lambda document: document["programs"][0].update(pinned))
    bundled(aws, slurm_scraping={"s3_uri": "s3://b/x.json", "region": "us-west-2"})
    done = aws.run("scripts.sh", **SLURM, NETWORK_ACCESS="closed")
    assert (done.returncode, f"cannot fetch what is missing: {file}." in done.stderr) == (1, True)
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 0, done.stdout + done.stderr
    assert delivered(aws) == {file, "SHA256SUMS"}
    packages = aws.root / "s3/synced/yours/packages"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=packages, check=True)
    assert gzip.decompress((packages / file).read_bytes()) == b"a program"
    assert published.is_dir()


def test_an_archive_with_another_checksum_is_not_delivered(aws, published: Path):
    aws.stand_in("curl", 'while [[ "$1" != --output ]]; do shift; done; echo another >"$2"')
    bundled(aws, slurm_scraping={"s3_uri": "s3://b/x.json", "region": "us-west-2"})
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert "prometheus-3.13.1.linux-amd64.tar.gz is not the pinned one" in done.stderr
    assert not aws.called("aws", "s3", "sync")
    assert published.is_dir()


def test_a_commit_that_the_publisher_does_not_have_is_not_delivered(aws, published: Path):
    change(aws, lambda document: document["sources"][1]["submodules"][0].update(commit="0" * 40))
    bundled(aws, containers="wanted")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert f"commit {'0' * 40} cannot be fetched from file://{published}/deps-linux-headers" in done.stderr
    assert not aws.called("aws", "s3", "sync")


@pytest.mark.usefixtures("published")
def test_a_tree_with_another_hash_is_not_delivered(aws):
    change(aws, lambda document: document["sources"][1].update(nar_sha256=f"sha256-{'A' * 43}="))
    bundled(aws, containers="wanted")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert f"the source of {ENROOT} has the hash sha256-" in done.stderr
    assert not aws.called("aws", "s3", "sync")


def test_an_enroot_that_does_not_compile_fails_the_stage_with_the_compilers_words(aws, published: Path):
    broken = {"Makefile": MAKEFILE, "bin/enroot-mount.c": '#include "absent.h"\n'}
    address, commit = repository(published / "broken", broken)

    def pin(document: dict[str, Any]) -> None:
        document["sources"][1].update(git=address, commit=commit)
        del document["sources"][1]["nar_sha256"]

    change(aws, pin)
    bundled(aws, containers="wanted")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert "enroot 4.1.2 does not compile" in done.stderr and "absent.h" in done.stderr
    assert not aws.called("aws", "s3", "sync")


@pytest.mark.usefixtures("published")
def test_an_archive_that_apt_does_not_believe_fails_the_stage(aws):
    aws.stand_in("apt-get", "[[ $* != *' update' ]] || { echo 'E: not signed' >&2; exit 100; }\n")
    bundled(aws, containers="wanted")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 100
    assert "E: not signed" in done.stderr
    assert not aws.called("aws", "s3", "sync")


@pytest.mark.usefixtures("published")
def test_a_closed_network_gets_them_from_a_checkout_that_somebody_prepared(aws):
    bundled(aws, containers="required")
    closed = {**SLURM, "NETWORK_ACCESS": "closed"}
    done = aws.run("scripts.sh", **closed)
    assert done.returncode == 1
    assert f"a closed network cannot fetch what is missing: {PYXIS}, {ENROOT}, jammy/, noble/." in done.stderr
    assert not aws.called("apt-get")
    assert aws.run("node_packages.sh", str(aws.root / "lifecycle_scripts/yours/packages"), "containers").returncode == 0
    fetched = len(aws.called("apt-get"))
    own = (aws.root / f"lifecycle_scripts/yours/packages/{ENROOT}").read_bytes()
    assert aws.run("scripts.sh", **closed).returncode == 0
    assert len(aws.called("apt-get")) == fetched
    assert delivered(aws) == DELIVERED
    assert (aws.root / f"s3/synced/yours/packages/{ENROOT}").read_bytes() == own


def test_the_hash_of_a_tree_is_what_nix_computes(tmp_path: Path):
    """`nix-hash --type sha256 tree` of Nix 2.8 printed this hash."""
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    (tree / "folder" / "text").write_text("text\n")
    (tree / "script").write_text("#!/bin/sh\n")
    (tree / "script").chmod(0o755)
    (tree / "link").symlink_to("folder/text")
    assert tree_hash(tree) == "sha256-vY3HmP1x27r374MRXCkU+NPYYWYSfDkqt7eLwpSoqPw="


def test_every_source_is_pinned_by_a_commit_and_says_where_its_pin_comes_from():
    document = yaml.safe_load((ROOT / "delivery/node_packages.yaml").read_text())
    for name, version, pinned, parts in (line.split("\t") for line in sources(document)):
        assert version in name
        for part in parts.removesuffix(";").split(";"):
            _, location, commit = part.split(" ")
            assert location.startswith("https://") and location.endswith(".git")
            assert len(bytes.fromhex(commit)) == hashlib.sha1(usedforsecurity=False).digest_size
        assert pinned == "-" or len(pinned) == len("sha256-") + 44
    (enroot,) = (each for each in document["sources"] if each["name"] == "enroot")
    assert [part["path"] for part in enroot["submodules"]] == sorted(part["path"] for part in enroot["submodules"])
    assert all(each["source"] and each["read"] for each in document["sources"])
