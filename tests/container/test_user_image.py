"""What a platform file adds to the image is built on its base, verified, and there when a job starts.

The base and the packages are stand-ins. benchmarks/user_images.py builds with PyTorch and BuildKit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.container import stand_ins
from tests.container.builder import BASES, REGISTRY, builds_images, image_directory
from tests.container.user_images import Shop, shop

# Building the base takes ten CPU seconds. In `make test`, tests/delivery/test_additions.py runs the stage, and
# test_verify_image.py runs the checks of the images.
pytestmark = [*builds_images("dpkg-deb", "gcc"), pytest.mark.exhaustive]
TORCH = {
    "torch/__init__.py": '__version__ = "2.13.0"\n',
    "torch_run.py": 'def main():\n    print("usage: torchrun [-h] [--nnodes NNODES] training_script")\n',
    "torch-2.13.0.dist-info/entry_points.txt": "[console_scripts]\ntorchrun = torch_run:main\n",
}
ON_BASE = "ARG TRAINWAY_BASE\nFROM ${TRAINWAY_BASE}\n"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    site = tmp_path_factory.mktemp("site")
    index = site / "simple"
    (site / "roots").mkdir()
    archives = {
        "torch": stand_ins.wheel(index, "torch", "2.13.0", TORCH, "Requires-Dist: numpy==2.4.6\n"),
        "numpy": stand_ins.wheel(index, "numpy", "2.4.6", {"numpy.py": ""}),
        "older": stand_ins.wheel(index, "numpy", "1.26.4", {"numpy.py": ""}),
        "einops": stand_ins.wheel(index, "einops", "0.8.1", {"einops.py": "ANSWER = 42\n"}),
        "needy": stand_ins.wheel(index, "needy", "1.0", {"needy.py": ""}, "Requires-Dist: absent\n"),
    }
    for name, archive in archives.items():
        stand_ins.requirements(site / f"{name}.txt", [archive])
    (site / "roots/libaio/opt").mkdir(parents=True)
    (site / "roots/libaio/opt/libaio").write_text("")
    (site / "Packages").write_text(stand_ins.package(site, "libaio-dev", "1:0.3", site / "roots/libaio"))
    with (
        stand_ins.served(site) as url,
        image_directory() as root,
        shop(root, {"VARIANT": "cpu", "LAYOUT": "cpu", "PYTORCH_VERSION": "2.13.0"}) as made,
    ):
        for name in archives:
            (made.root / f"{name}.txt").write_text((site / f"{name}.txt").read_text())
        commands = (
            f"rm -rf /etc/apt/sources.list*; echo 'deb [trusted=yes] {url} ./' >/etc/apt/sources.list; "
            "pip install --quiet torch==2.13.0"
        )
        made.make_base(commands, {"PIP_INDEX_URL": f"{url}/simple"})
        yield made


@pytest.fixture
def empty(yard: Shop) -> Shop:
    """The shop without what an earlier test added."""
    yard.must("rm", "-rf", "additions")
    (yard.root / "additions/dockerfile").mkdir(parents=True)
    (yard.root / "additions/dockerfile").rmdir()
    return yard


def add_packages(yard: Shop, *lists: str, apt: str = "") -> None:
    text = "".join((yard.root / f"{name}.txt").read_text() for name in lists)
    (yard.root / "additions/pip.txt").write_text(text)
    if apt:
        (yard.root / "additions/apt.txt").write_text(f"{apt}\n")


def add_dockerfile(yard: Shop, text: str, **files: str) -> None:
    folder = yard.root / "additions/dockerfile"
    folder.mkdir()
    for name, content in {"Dockerfile": text, **files}.items():
        (folder / name).write_text(content)


def test_packages_and_a_dockerfile_are_in_the_image_of_a_job(empty: Shop):
    add_packages(empty, "einops", apt="libaio-dev")
    # The Dockerfile is built on the packages, ends as another user elsewhere, and has a program without its permission.
    run = "RUN python -c 'import einops' && ls /opt/libaio\n"
    lines = f"{run}COPY --chown=7 tool /opt/tool\nUSER 7:7\nWORKDIR /opt\nENV ADDED=yes\n"
    add_dockerfile(empty, ON_BASE + lines, tool="#!/bin/sh\necho tool\n")
    done = empty.additions()
    assert done.returncode == 0, done.stdout + done.stderr
    image = empty.image()
    script = "id -u; pwd; /opt/tool; echo $ADDED; python -c 'import einops, training.errors; print(einops.ANSWER)'"
    said = empty.run_in(image, "bash", "-c", script)
    assert said.stdout.split() == ["0", "/home/trainer", "tool", "yes", "42"], said.stderr
    # The list of packages, in the image and where the stage keeps it, has what both additions brought.
    listed = empty.run_in(image, "cat", "/opt/trainway/sbom.spdx.json").stdout
    assert (empty.root / f"ecr/bills/{empty.tag('dockerfile')}.spdx.json").read_text() == listed
    versions = {each["name"]: each.get("versionInfo") for each in json.loads(listed)["packages"]}
    assert (versions["einops"], versions["libaio-dev"], versions["torch"]) == ("0.8.1", "1:0.3", "2.13.0")
    # Another line of the job is a layer on all of that.
    job = empty.root / "training/train.py"
    right, before = job.read_text(), empty.layers_of(image)
    job.write_text(f"{right}\n# Another line.\n")
    try:
        after = empty.layers_of(empty.image())
    finally:
        job.write_text(right)
    assert before[:-1] == after[:-1] and before[-1] != after[-1]


def test_other_packages_leave_the_base_as_it_is(empty: Shop):
    base = empty.layers_of(f"{REGISTRY}/{BASES}:base")
    add_packages(empty, "einops")
    done = empty.additions()
    assert done.returncode == 0, done.stdout + done.stderr
    first = empty.layers_of(empty.image())
    assert first[: len(base)] == base


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        (["older"], "pip check: torch 2.13.0 has requirement numpy==2.4.6, but you have numpy 1.26.4."),
        (["needy"], "pip check: needy 1.0 requires absent, which is not installed."),
    ],
)
def test_packages_that_do_not_fit_fail_the_build(empty: Shop, lists: list[str], says: str):
    add_packages(empty, *lists)
    done = empty.additions()
    assert done.returncode == 1
    assert f"verify_image: {says}" in done.stdout + done.stderr
    assert "the packages of image.packages are not installed" in done.stderr


def test_a_package_with_another_checksum_is_not_installed(empty: Shop):
    add_packages(empty, "einops")
    file = empty.root / "additions/pip.txt"
    name, _, _ = file.read_text().partition("sha256:")
    file.write_text(f"{name}sha256:{'0' * 64}\n")
    done = empty.additions()
    assert done.returncode == 1
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("RUN pip install --quiet numpy==1.26.4", "pip check: torch 2.13.0 has requirement numpy==2.4.6"),
        (
            "RUN sed -i s/2.13.0/2.12.0/ $(python -c 'import torch; print(torch.__file__)')",
            "PyTorch is 2.12.0, expected",
        ),
        ("RUN rm /opt/trainway/bin/torchrun", "torchrun does not start"),
        ("RUN userdel trainer", "there is no user 1000, as which jobs run"),
        ("ARG PYTORCH_VERSION=1.0\nRUN exit 3", "exit status 3"),
    ],
)
def test_a_dockerfile_that_breaks_the_image_fails_the_build_and_nothing_is_pushed(empty: Shop, line: str, says: str):
    add_dockerfile(empty, f"{ON_BASE}{line}\n")
    done = empty.additions()
    assert done.returncode == 1
    assert says in done.stdout + done.stderr
    assert "the Dockerfile of image.dockerfile is not built, or breaks what the image had" in done.stderr
    assert not (empty.root / "ecr" / BASES / empty.tag("dockerfile")).exists()
