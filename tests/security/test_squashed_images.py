"""Threat: a user leaves a squashed image where the run of another user looks for its own, and so decides what runs."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.launch.conftest import hand_off as hand_off
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from trainway.launch.slurm import render_script
from trainway.spec.handoff import HandOff

ADA, MALLORY = "games", "mail"
"""Two users whom every Debian has. ADA starts a run, and MALLORY plants."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="acts as two users, which requires root")


@dataclass
class Cluster:
    """A shared file system, and an enroot that imports any image. `prepare` is the part of the script for the image."""

    mount: Path
    prepare: str
    image: Path

    def starts(self, user: str = ADA) -> subprocess.CompletedProcess[str]:
        """Run the script's part as a user. It prints the options of the step."""
        run = Path(tempfile.mkdtemp(dir=self.mount))
        shutil.chown(run, user)
        environment = {
            "PATH": f"{self.mount}/bin:/usr/bin:/bin",
            "SLURM_JOB_ID": "7",
            "SLURMD_NODENAME": "n1",
            "TMPDIR": str(run),
            "run": str(run),
        }
        shown = f'umask 0002\n{self.prepare}\nprintf "%s\\n" "${{options[@]}}"'
        command = ["bash", "-euo", "pipefail", "-c", shown]
        return subprocess.run(command, env=environment, capture_output=True, text=True, user=user, timeout=60)

    def as_mallory(self, script: str) -> None:
        """Run a shell script as MALLORY, whose arguments are the image's directory and name."""
        command = ["sh", "-euc", script, "sh", str(self.image.parent), self.image.name]
        subprocess.run(command, user=MALLORY, check=True, timeout=60)


@pytest.fixture
def cluster(tmp_path: Path, hand_off: HandOff) -> Iterator[Cluster]:
    mount = Path(tempfile.mkdtemp(dir="/var/tmp"))
    mount.chmod(0o755)
    # As lifecycle_scripts/steps/20-lustre.sh makes it.
    (mount / "images").mkdir()
    (mount / "images").chmod(0o1777)
    (mount / "bin").mkdir()
    enroot = mount / "bin/enroot"
    enroot.write_text('#!/bin/sh\necho imported >"$3"\n')
    enroot.chmod(0o755)
    script = render_script(request(tmp_path, on_slurm(hand_off, mount=str(mount))), CATALOGUE)
    prepare = script[script.index("\ncannot_start() {") : script.index("\ncommand=")]
    image = mount / "images" / ADA / f"{'5e' * 32}.sqsh"
    yield Cluster(mount, prepare, image)
    shutil.rmtree(mount)


def test_an_image_that_the_user_has_imported_is_used_again(cluster: Cluster) -> None:
    for _ in range(2):
        done = cluster.starts()
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == f"--container-image={cluster.image}"
        found = cluster.image.stat()
        assert (found.st_uid, found.st_mode & 0o022) == (pwd.getpwnam(ADA).pw_uid, 0)
        cluster.image.write_text("imported before")
    assert cluster.image.read_text() == "imported before"


def test_an_image_of_root_is_used(cluster: Cluster) -> None:
    cluster.image.parent.mkdir(mode=0o755)
    cluster.image.write_text("of root")
    assert cluster.starts().returncode == 0


PLANTED = 'mkdir -m 777 "$1" && echo planted >"$1/$2" && chmod 777 "$1/$2"'


@pytest.mark.parametrize(
    "plant",
    [
        PLANTED,
        # A directory into which the user's own import would go, and be exchanged.
        'mkdir -m 777 "$1"',
        'mkdir -m 777 "$1.mine" && echo planted >"$1.mine/$2" && ln -s "$1.mine" "$1"',
    ],
)
def test_what_another_user_left_in_the_place_of_the_users_directory_is_refused(cluster: Cluster, plant: str) -> None:
    cluster.as_mallory(plant)
    done = cluster.starts()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{cluster.image.parent} could come from another user" in done.stderr
    assert f"of {MALLORY}" in done.stderr


def test_an_image_in_a_directory_that_others_could_write_to_is_refused(cluster: Cluster) -> None:
    assert cluster.starts().returncode == 0
    cluster.image.parent.chmod(0o777)
    cluster.as_mallory('echo planted >"$1/new" && mv "$1/new" "$1/$2"')
    done = cluster.starts()
    assert (done.returncode, done.stdout) == (1, "")
    # Closed again, the image is still the other user's.
    cluster.image.parent.chmod(0o755)
    done = cluster.starts()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{cluster.image} could come from another user: it is regular file of {MALLORY}" in done.stderr


def test_a_directory_of_all_images_whose_owner_could_exchange_them_is_refused(cluster: Cluster) -> None:
    shutil.chown(cluster.mount / "images", MALLORY)
    done = cluster.starts()
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{cluster.mount / 'images'} could come from another user" in done.stderr
    shutil.chown(cluster.mount / "images", "root")
    (cluster.mount / "images").chmod(0o777)
    assert cluster.starts().returncode == 1


def test_no_other_user_reaches_the_directory_of_the_users_images(cluster: Cluster) -> None:
    assert cluster.starts().returncode == 0
    for attempt in ('cat "$1/$2"', 'echo planted >"$1/new"', 'mv "$1" "$1.old"', 'rm -r "$1"'):
        with pytest.raises(subprocess.CalledProcessError):
            cluster.as_mallory(attempt)
    assert cluster.image.read_text() == "imported\n"
