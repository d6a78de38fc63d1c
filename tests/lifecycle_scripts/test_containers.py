"""Containers on a node: images on the disk for them, and enroot and pyxis where the platform asks for them.

dpkg, make, systemd and mounts are real; the packages are made here, of commands that say how they were called.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.nodes import DOWNLOADED, SCRIPTS, Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import run_step

on_nodes = pytest.mark.skipif(missing() is not None, reason=str(missing()))

PACKAGES = f"{DOWNLOADED}/yours/packages"
PLUGIN = "/opt/trainway/pyxis/spank_pyxis.so"
# As in pyxis's own, the flags of the caller are added to.
MAKEFILE = "CPPFLAGS := -D_GNU_SOURCE $(CPPFLAGS)\nspank_pyxis.so:\n\techo 'compiled with $(CPPFLAGS)' >$@\n"
DAEMON = """[Unit]
Description={name}
[Service]
ExecStartPre=/bin/sh -c 'mountpoint -q /var/lib/{name} && echo mounted >/run/{name}-began || true'
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
IMAGES_DISKS = """[Unit]
Description=As the image has it
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mkdir -p {place} && mount -t tmpfs disk {place}'
[Install]
WantedBy=multi-user.target
"""


def make_package(folder: Path, name: str, *, depends: str = "", after: str = "true") -> None:
    """A package of Debian's with a command of its name."""
    tree = folder / f".{name}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 4.1.2-1\nArchitecture: all\nMaintainer: nobody <a@b>\nDescription: x\n"
    (tree / "DEBIAN/control").write_text(control + (f"Depends: {depends}\n" if depends else ""))
    (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\n{after}\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    command = tree / "usr/bin" / name
    command.write_text('#!/bin/sh\n[ "$1" != version ] || echo 4.1.2\n')
    command.chmod(0o755)
    hooks = tree / "usr/share/enroot/hooks.d"
    if name == "enroot":
        hooks.mkdir(parents=True)
        (hooks / "50-slurm-pmi.sh").write_text("#!/bin/sh\n")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, folder / f"{name}_4.1.2-1_all.deb"], check=True)


def make_source(folder: Path, makefile: str = MAKEFILE) -> None:
    """pyxis as it is delivered."""
    (folder / "Makefile").write_text(makefile)
    with tarfile.open(folder / "pyxis-0.24.0.tar", "w") as archive:
        archive.add(folder / "Makefile", "pyxis-0.24.0/Makefile")
    (folder / "Makefile").unlink()


def deliver(node: Node, folder: Path) -> None:
    """Puts what is in the folder beside the scripts, as the delivery does."""
    node.run("rm", "-rf", PACKAGES)
    there = node.root / PACKAGES.lstrip("/")
    sums = []
    there.mkdir()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            (there / name).parent.mkdir(exist_ok=True)
            (there / name).write_bytes(file.read_bytes())
            sums.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n")
    (there / "SHA256SUMS").write_text("".join(sums))


def parameters(node: Node, **changes: Any) -> None:
    file = node.root / f"{DOWNLOADED}/parameters.json".lstrip("/")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    groups = {"controller": ["ctl"], "train": ["n1"]}
    with nodes(tmp_path_factory.mktemp("lab"), groups, parameters={"containers": "required"}) as made:
        for node in made.nodes.values():
            # What the image has to compile with.
            node.write("/usr/local/bin/gcc", "#!/bin/sh\n", mode=0o755)
            node.write("/opt/slurm/include/slurm/spank.h", "")
        yield made


@pytest.fixture
def node(lab: Lab) -> Iterator[Node]:
    """A worker, without what an earlier test installed."""
    node = lab["n1"]
    yield node
    node.run("dpkg", "--purge", "--force-all", "enroot", "enroot-caps", check=False)
    node.run("rm", "-rf", "/etc/enroot", "/opt/trainway/pyxis", "/opt/slurm/etc/plugstack.conf", PACKAGES)
    parameters(node, containers="required")


@on_nodes
def test_enroot_and_pyxis_are_installed_once_from_what_was_delivered(node: Node, lab: Lab, tmp_path: Path) -> None:
    make_package(tmp_path, "enroot")
    make_package(tmp_path, "enroot-caps", depends="enroot (= 4.1.2-1)")
    make_source(tmp_path)
    deliver(node, tmp_path)
    node.write("/opt/slurm/etc/plugstack.conf", "optional /opt/slurm/lib/other.so\n")
    done = run_step(node, "25-containers")
    assert done.returncode == 0, done.stdout
    assert "installed enroot-caps_4.1.2-1_all.deb enroot_4.1.2-1_all.deb" in done.stdout
    assert node.run("cat", PLUGIN).stdout == "compiled with -D_GNU_SOURCE -I/opt/slurm/include\n"
    assert done.stdout.splitlines()[-1] == "pyxis is set up"
    before = node.snapshot(times=True)
    again = run_step(node, "25-containers")
    assert again.returncode == 0, again.stdout
    assert node.snapshot(times=True) == before
    assert "installed" not in again.stdout.replace("packages are installed", "") and "compiled" not in again.stdout
    settings = (node.root / "etc/enroot/enroot.conf.d/90-trainway.conf").read_text()
    place = settings.split("ENROOT_DATA_PATH ")[1].split("/enroot/")[0]
    assert place == "/opt/trainway/scratch"
    # A user may make a directory of one's own where enroot looks for it.
    for line in settings.splitlines():
        name = f"'{line.split(maxsplit=1)[1]}'"
        made = node.run("su", "ubuntu", "-c", f"eval mkdir -p {name}; test -w $(eval echo {name})", check=False)
        assert made.returncode == 0, (line, made.stderr)
    assert node.run("stat", "--format=%a", "/run/enroot", "/run/pyxis").stdout.split() == ["1777", "755"]
    assert (node.root / "etc/enroot/hooks.d/50-slurm-pmi.sh").is_symlink()
    assert lab.asked_outside() == []


@on_nodes
def test_the_controller_has_the_plugin_in_what_it_hands_out(lab: Lab, tmp_path: Path) -> None:
    make_package(tmp_path, "enroot")
    make_source(tmp_path)
    node = lab["ctl"]
    deliver(node, tmp_path)
    node.write("/opt/slurm/etc/plugstack.conf", "optional /opt/slurm/lib/other.so\n")
    assert run_step(node, "25-containers").returncode == 0
    plugstack = node.root / "opt/slurm/etc/plugstack.conf"
    assert plugstack.read_text() == f"optional /opt/slurm/lib/other.so\nrequired {PLUGIN}\n"


@on_nodes
def test_a_pyxis_of_the_images_own_stays(node: Node, tmp_path: Path) -> None:
    make_package(tmp_path, "enroot")
    make_source(tmp_path)
    deliver(node, tmp_path)
    own = "required /usr/local/lib/slurm/spank_pyxis.so\n"
    node.write("/opt/slurm/etc/plugstack.conf", own)
    done = run_step(node, "25-containers")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "the image has a pyxis of its own"), done.stdout
    assert (node.root / "opt/slurm/etc/plugstack.conf").read_text() == own


@on_nodes
def test_pyxis_is_compiled_again_for_another_slurm(node: Node, tmp_path: Path) -> None:
    make_package(tmp_path, "enroot")
    make_source(tmp_path)
    deliver(node, tmp_path)
    assert "compiled pyxis for slurm" in run_step(node, "25-containers").stdout
    node.run("rm", "/opt/slurm/sbin/slurmd")
    node.write("/opt/slurm/sbin/slurmd", "#!/bin/sh\necho slurm 99.11.0\n", mode=0o755)
    done = run_step(node, "25-containers")
    node.run("ln", "-sf", "/usr/sbin/slurmd", "/opt/slurm/sbin/slurmd")
    assert "compiled pyxis for slurm 99.11.0" in done.stdout


@on_nodes
def test_nobody_is_given_what_nobody_asked_for(node: Node) -> None:
    parameters(node, containers="none")
    done = run_step(node, "25-containers")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "slurm.containers is false, and the image has no enroot"


@on_nodes
def test_a_node_that_cannot_have_what_nobody_required_warns_and_is_a_node(node: Node, tmp_path: Path) -> None:
    make_package(tmp_path, "enroot", depends="parallel")
    make_source(tmp_path)
    deliver(node, tmp_path)
    parameters(node, containers="wanted")
    done = run_step(node, "25-containers")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith(
        "WARNING: jobs in an image cannot run on this node: a package depends on parallel, which neither the image has"
    )
    assert not (node.root / "opt/slurm/etc/plugstack.conf").exists()


@on_nodes
def test_dependencies_come_from_the_folder_of_the_nodes_release_and_replace_nothing(node: Node, tmp_path: Path) -> None:
    make_package(tmp_path, "enroot", depends="parallel, bash")
    make_source(tmp_path)
    for release in ("bookworm", "noble"):
        (tmp_path / release).mkdir()
        make_package(tmp_path / release, "parallel")
    # An older bash than the node's own.
    make_package(tmp_path / "bookworm", "bash")
    make_package(tmp_path / "noble", "newer")
    deliver(node, tmp_path)
    bash = node.run("dpkg-query", "-Wf${Version}", "bash").stdout
    done = run_step(node, "25-containers")
    node.run("dpkg", "--purge", "--force-all", "parallel", check=False)
    assert done.returncode == 0, done.stdout
    assert "installed enroot_4.1.2-1_all.deb parallel_4.1.2-1_all.deb" in done.stdout
    assert node.run("dpkg-query", "-Wf${Version}", "bash").stdout == bash
    # What lies in a folder is checked, too.
    with (node.root / PACKAGES.lstrip("/") / "bookworm/parallel_4.1.2-1_all.deb").open("ab") as file:
        file.write(b"x")
    done = run_step(node, "25-containers")
    assert (done.returncode, "is not what was delivered (bookworm/parallel" in done.stdout) == (1, True), done.stdout


@on_nodes
def test_what_cannot_be_installed_is_said_with_the_remedy(node: Node, tmp_path: Path) -> None:
    lines = []
    for spoil in ("nothing", "depends", "compile", "checksum"):
        folder = tmp_path / spoil
        folder.mkdir()
        if spoil != "nothing":
            make_package(folder, "enroot", depends="parallel" if spoil == "depends" else "")
            make_source(
                folder, "spank_pyxis.so:\n\t@echo config.c: error; exit 1\n" if spoil == "compile" else MAKEFILE
            )
        deliver(node, folder)
        if spoil == "checksum":
            with (node.root / PACKAGES.lstrip("/") / "pyxis-0.24.0.tar").open("ab") as file:
                file.write(b"x")
        done = run_step(node, "25-containers")
        assert done.returncode == 1, (spoil, done.stdout)
        lines.append(done.stdout.splitlines()[-1])
    assert lines[0] == "no package was delivered: deploy the platform again, then replace the node"
    assert lines[1] == (
        "a package depends on parallel, which neither the image has nor yours/packages: put it into "
        "lifecycle_scripts/yours/packages of the checkout and deploy, or give the node groups an image that has it"
    )
    assert lines[2].startswith("pyxis does not compile for slurm") and "delivery/node_packages.yaml" in lines[2]
    assert lines[3].startswith("a package is not what was delivered (pyxis-0.24.0.tar: FAILED)")


@on_nodes
def test_an_installation_that_was_killed_is_finished_by_the_next_run(node: Node, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    make_package(slow, "enroot", after="[ -e /run/hurry ] || sleep 3600")
    make_source(slow)
    deliver(node, slow)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_step, node, "25-containers")
        while node.run("pgrep", "-f", "[e]nroot.postinst", check=False).returncode:
            assert not running.done()
            time.sleep(0.05)
        node.run("pkill", "-KILL", "-f", "[2]5-containers|[p]ackages.sh|[d]pkg|[p]ostinst|[s]leep 30", check=False)
        assert running.result().returncode != 0
    assert node.run("dpkg-query", "-Wf${db:Status-Abbrev}", "enroot").stdout.strip() != "ii"
    node.run("touch", "/run/hurry")
    done = run_step(node, "25-containers")
    assert done.returncode == 0, done.stdout
    assert node.run("dpkg-query", "-Wf${db:Status-Abbrev}", "enroot").stdout.strip() == "ii"


def give_disks(node: Node, place: str) -> None:
    node.write("/etc/systemd/system/dlami-nvme.service", IMAGES_DISKS.format(place=place))
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "--quiet", "enable", "--now", "dlami-nvme.service")


@pytest.mark.exhaustive
@on_nodes
def test_docker_keeps_images_on_the_disks_from_before_it_starts(lab: Lab) -> None:
    node = lab["ctl"]
    parameters(node, containers="none")
    give_disks(node, "/opt/dlami/nvme")
    for name in ("docker", "containerd"):
        node.write(f"/etc/systemd/system/{name}.service", DAEMON.format(name=name))
        node.write(f"/var/lib/{name}/brought", "by the image")
    # As Docker's own units are: what stops the socket stops the daemon.
    node.write("/etc/systemd/system/docker.socket", "[Socket]\nListenStream=/run/docker.sock\n")
    unit = node.root / "etc/systemd/system/docker.service"
    unit.write_text(unit.read_text().replace("[Service]", "Requires=docker.socket\n[Service]"))
    node.write("/etc/docker/daemon.json", '{"exec-opts": ["native.cgroupdriver=systemd"]}')
    node.write("/usr/local/bin/nvidia-container-runtime", "#!/bin/sh\n", mode=0o755)
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "--quiet", "enable", "--now", "docker", "containerd")
    assert run_step(node, "14-local-disks").returncode == 0
    done = run_step(node, "25-containers")
    assert done.returncode == 0, done.stdout
    assert "container images are kept in /opt/dlami/nvme" in done.stdout
    settings = json.loads((node.root / "etc/docker/daemon.json").read_text())
    assert settings["exec-opts"] == ["native.cgroupdriver=systemd"]
    assert settings["log-opts"] == {"max-size": "100m", "max-file": "3"}
    assert settings["runtimes"]["nvidia"]["path"] == "nvidia-container-runtime"
    for name in ("docker", "containerd"):
        assert node.run("cat", f"/opt/dlami/nvme/{name}/brought").stdout == "by the image"
        assert node.run("cat", f"/run/{name}-began").stdout == "mounted\n"
        assert node.run("systemctl", "is-active", name).stdout == "active\n"
    before = node.snapshot(times=True)
    began = node.run("systemctl", "show", "--property=ExecMainStartTimestampMonotonic", "docker").stdout
    assert run_step(node, "25-containers").returncode == 0
    assert node.snapshot(times=True) == before
    assert node.run("systemctl", "show", "--property=ExecMainStartTimestampMonotonic", "docker").stdout == began
    # The disks come back empty.
    node.cut_power()
    node.boot()
    for name in ("docker", "containerd"):
        assert node.run("cat", f"/run/{name}-began").stdout == "mounted\n"
    # Without them Docker does not fill the node's own volume.
    node.write("/etc/systemd/system/dlami-nvme.service", IMAGES_DISKS.format(place="/elsewhere"))
    node.cut_power()
    node.boot()
    assert node.run("systemctl", "is-active", "docker", check=False).stdout == "inactive\n"


@on_nodes
def test_a_daemon_that_a_killed_run_stopped_is_started_by_the_next(node: Node) -> None:
    parameters(node, containers="none")
    node.write("/etc/systemd/system/docker.service", DAEMON.format(name="docker"))
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "docker")
    node.run("mkdir", "-p", "/opt/sagemaker")
    node.run("mount", "-t", "tmpfs", "volume", "/opt/sagemaker")
    try:
        # Killed as it has stopped Docker and begins to copy.
        node.write("/usr/local/bin/cp", "#!/bin/sh\nkill -9 $(pgrep -f 'engines.sh|25-containers')\n", mode=0o755)
        assert run_step(node, "25-containers").returncode != 0
        assert node.run("systemctl", "is-active", "docker", check=False).stdout == "inactive\n"
        # A disk that cannot take it leaves everything as it was.
        node.write("/usr/local/bin/cp", "#!/bin/sh\necho cp: No space left on device; exit 1\n", mode=0o755)
        done = run_step(node, "25-containers")
        assert done.returncode == 0, done.stdout
        assert (
            "WARNING: /var/lib/docker cannot be copied to /opt/sagemaker (cp: No space left on device)" in done.stdout
        )
        assert node.run("systemctl", "is-active", "docker").stdout == "active\n"
        node.run("rm", "/usr/local/bin/cp")
        assert run_step(node, "25-containers").returncode == 0
        assert node.run("mountpoint", "-q", "/var/lib/docker").returncode == 0
        assert node.run("systemctl", "is-active", "docker").stdout == "active\n"
    finally:
        node.run("systemctl", "stop", "docker", "var-lib-docker.mount", check=False)
        node.run("umount", "/opt/sagemaker")
        node.run("rm", "-f", "/usr/local/bin/cp", "/etc/systemd/system/docker.service")
        node.run("systemctl", "daemon-reload")


@on_nodes
def test_kubelet_and_containerd_are_on_the_second_volume_of_a_kubernetes_node(node: Node) -> None:
    parameters(node, orchestrator="hyperpod-eks", containers="none")
    for name in ("containerd", "kubelet"):
        node.write(f"/etc/systemd/system/{name}.service", DAEMON.format(name=name))
        node.write(f"/var/lib/{name}/brought", "by the image")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "containerd")
    try:
        done = run_step(node, "25-containers", VOLUME_WAIT_SECONDS="1")
        assert (done.returncode, done.stdout) == (0, "container images are kept in /opt/trainway/scratch\n")
        node.run("mkdir", "-p", "/opt/sagemaker")
        node.run("mount", "-t", "tmpfs", "volume", "/opt/sagemaker")
        node.run("systemctl", "start", "kubelet")
        done = run_step(node, "25-containers")
        assert done.stdout.startswith("WARNING: kubelet runs already")
        node.run("systemctl", "stop", "kubelet")
        done = run_step(node, "25-containers")
        assert done.returncode == 0, done.stdout
        assert done.stdout.splitlines()[-1] == "container images are kept in /opt/sagemaker"
        for name in ("containerd", "kubelet"):
            assert node.run("cat", f"/opt/sagemaker/{name}/brought").stdout == "by the image"
            assert node.run("mountpoint", "-q", f"/var/lib/{name}").returncode == 0
        states = node.run("systemctl", "is-active", "containerd", "kubelet", check=False).stdout.split()
        assert states == ["active", "inactive"]
        # A node that cannot mount it is a node all the same.
        needed = node.run("systemctl", "show", "--property=RequiredBy", "var-lib-kubelet.mount").stdout
        assert needed == "RequiredBy=\n"
        wanted = node.run("systemctl", "show", "--property=WantedBy", "--value", "var-lib-kubelet.mount").stdout
        assert set(wanted.split()) == {"containerd.service", "kubelet.service"}
    finally:
        parameters(node, orchestrator="hyperpod-slurm")


script = importlib.util.spec_from_file_location("docker_settings", SCRIPTS / "containers/docker_settings.py")
assert script is not None and script.loader is not None
docker_settings = importlib.util.module_from_spec(script)
script.loader.exec_module(docker_settings)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"log-driver": "journald"}, {"log-driver": "journald"}),
        ({"log-opts": {"max-size": "1g"}}, {"log-opts": {"max-size": "1g"}}),
        ({"runtimes": {"nvidia": {"path": "/opt/other"}}}, {"runtimes": {"nvidia": {"path": "/opt/other"}}}),
    ],
)
def test_what_docker_was_told_by_somebody_else_stays(settings: dict[str, Any], kept: dict[str, Any]) -> None:
    made = docker_settings.with_defaults(settings, nvidia=True)
    assert {name: made[name] for name in kept} == kept
    assert not ("journald" in made.values() and "log-opts" in made)


def test_a_file_that_docker_does_not_read_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("{")
    command = ["python3", str(SCRIPTS / "containers/docker_settings.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "correct it in the image or in yours/custom.d" in done.stderr
    assert file.read_text() == "{"
