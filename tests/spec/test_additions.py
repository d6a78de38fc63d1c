"""What a platform adds to the base of its image: its lock of Python packages, and its Dockerfile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from trainway.spec.docker_context import context_files
from trainway.spec.loader import load_platform
from trainway.spec.package_lock import header
from trainway.spec.problems import SpecError
from trainway.spec.user_dockerfile import MOST_BYTES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (ROOT / "examples/eks-p5.yaml").read_text(encoding="utf-8")
EINOPS = f"einops==0.8.1 \\\n    --hash=sha256:{'a' * 64}\n"
ON_BASE = "ARG TRAINWAY_BASE\nFROM ${TRAINWAY_BASE}\n"


def platform_file(folder: Path, image: str) -> Path:
    file = folder / "platform.yaml"
    file.write_text(f"{EXAMPLE}\nimage: {image}\n", encoding="utf-8")
    return file


def locked(folder: Path, *requested: str, beside: str = "pytorch-2.13", packages: str = EINOPS) -> Path:
    file = platform_file(folder, f"{{packages: {{pip: [{', '.join(requested)}]}}}}")
    (folder / "platform.packages.lock").write_text(header(file, requested, beside, "0" * 16) + packages)
    return file


def refused(file: Path) -> str:
    with pytest.raises(SpecError) as error:
        load_platform(file)
    [problem] = error.value.problems
    return f"{problem.reason}; {problem.remedy}"


def dockerfile(folder: Path, text: str) -> Path:
    (folder / "image").mkdir(exist_ok=True)
    (folder / "image/Dockerfile").write_text(text, encoding="utf-8")
    return platform_file(folder, "{dockerfile: image}")


def test_a_platform_has_the_lock_beside_its_file(tmp_path: Path):
    packages = load_platform(locked(tmp_path, "einops==0.8.1")).additions.packages
    assert packages and packages.requested == ("einops==0.8.1",)
    assert packages.text.endswith(EINOPS)


def test_a_lock_for_other_packages_is_refused_with_the_command_that_writes_it(tmp_path: Path):
    file = locked(tmp_path, "einops==0.8.1")
    file.write_text(file.read_text().replace("0.8.1", "0.8.2"))
    said = refused(file)
    assert "platform.packages.lock was made for einops==0.8.1" in said
    assert f"run `trainway image lock {file}`" in said


def test_a_lock_for_an_image_of_other_versions_is_refused(tmp_path: Path):
    said = refused(locked(tmp_path, "einops==0.8.1", beside="pytorch-2.11 nemo"))
    assert "was made for an image of pytorch-2.11 nemo, and this one is of pytorch-2.13" in said


@pytest.mark.parametrize(
    "line",
    ["--index-url https://example.org\n", "einops==0.8.1\n", "einops @ https://example.org/einops.whl\n", "./local\n"],
)
def test_a_lock_has_nothing_but_packages_with_checksums(tmp_path: Path, line: str):
    assert "has a line that is no package with its checksums" in refused(locked(tmp_path, "einops", packages=line))


@pytest.mark.parametrize("lacking", ["for", "beside", "lists"])
def test_a_lock_that_does_not_say_what_it_is_for_is_refused(tmp_path: Path, lacking: str):
    file = locked(tmp_path, "einops")
    lock = tmp_path / "platform.packages.lock"
    lock.write_text("".join(each for each in lock.read_text().splitlines(True) if not each.startswith(f"# {lacking}:")))
    assert f"it lacks `# {lacking}:`" in refused(file)


@pytest.mark.parametrize(
    "text",
    [
        ON_BASE,
        "# syntax=docker/dockerfile:1\narg TRAINWAY_BASE=none\nfrom --platform=linux/amd64 $TRAINWAY_BASE\n",
        "ARG OTHER\nARG TRAINWAY_BASE\nFROM gcc AS tool\nFROM ${TRAINWAY_BASE} as mine\nCOPY --from=tool /a /b\n",
        "ARG TRAINWAY_BASE\nFROM ${TRAINWAY_BASE} AS one\nRUN true\nFROM One\n",
        ON_BASE + "RUN <<EOF\nFROM ubuntu\nEOF\nRUN echo \\\n  # a comment\n  FROM debian\n",
    ],
)
def test_a_dockerfile_on_the_base_is_accepted(tmp_path: Path, text: str):
    folder = load_platform(dockerfile(tmp_path, text)).additions.dockerfile
    assert folder == tmp_path / "image"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FROM ubuntu:24.04\n", "Dockerfile:1: its last stage is built on ubuntu:24.04"),
        (ON_BASE + "FROM scratch\n", "Dockerfile:3: its last stage is built on scratch"),
        ("ARG TRAINWAY_BASE\n\nFROM a AS b\nFROM \\\n  b\n", "Dockerfile:4: its last stage is built on a"),
        ("FROM ${TRAINWAY_BASE}\n", "Dockerfile:1: TRAINWAY_BASE has no value"),
        ("FROM a AS b\nARG TRAINWAY_BASE\nFROM ${TRAINWAY_BASE}\n", "Dockerfile:3: TRAINWAY_BASE has no value"),
        ("FROM a AS a\n", "Dockerfile:1: its last stage is built on a"),
        ("RUN true\n", "Dockerfile has no FROM"),
    ],
)
def test_a_dockerfile_on_something_else_is_refused_with_its_line(tmp_path: Path, text: str, says: str):
    assert says in refused(dockerfile(tmp_path, text))


def test_a_directory_without_a_dockerfile_is_refused(tmp_path: Path):
    (tmp_path / "image").mkdir()
    assert "has no Dockerfile" in refused(platform_file(tmp_path, "{dockerfile: image}"))


def test_a_link_and_too_many_bytes_cannot_be_uploaded(tmp_path: Path):
    file = dockerfile(tmp_path, ON_BASE)
    link = tmp_path / "image/link"
    link.symlink_to("/etc/passwd")
    assert f"{link} is a symbolic link" in refused(file)
    link.unlink()
    with (tmp_path / "image/large").open("wb") as large:
        large.truncate(MOST_BYTES + 1)
    assert "its files have 256 MiB, more than 256; the largest is" in refused(file)
    (tmp_path / "image/.dockerignore").write_text("large\n")
    load_platform(file)


FILES = ("a.txt", "a.log", "b/a.log", "b/c/keep.log", "b/c/d.txt", "data/x.bin", "data/y/z.bin", ".git/config", "q/[x]")
IGNORED = (
    "*.log",
    "**/*.log\n!b/c/keep.log",
    "b\n!b/c/d.txt",
    "*\n!b",
    "/data\n",
    "data/*/\n",
    "**/c",
    "b/**",
    "# a comment\n\n  a.txt  ",
    "?.txt",
    "[ab].txt",
    "*/*.log",
    "./data/../a.txt",
    "Dockerfile\n.dockerignore",
    ".git",
    "q/\\[x\\]",
    "**",
)


@pytest.mark.parametrize(
    "text", [*IGNORED[:4], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in IGNORED[4:])]
)
@pytest.mark.skipif(
    (os.geteuid() != 0 or shutil.which("buildah") is None) and "CI" not in os.environ,
    reason="only root builds an image without a daemon, with buildah",
)
def test_the_build_context_is_what_a_builder_takes_of_the_directory(tmp_path: Path, text: str):
    """buildah reads .dockerignore with the library that Docker's builder has."""
    folder = tmp_path / "context"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    (folder / ".dockerignore").write_text(text)
    environment = os.environ | {"CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf"), "TMPDIR": str(tmp_path)}
    settings = f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/store"\nrunroot = "{tmp_path}/run"\n'
    (tmp_path / "storage.conf").write_text(settings)
    archive = tmp_path / "out"
    build = ["buildah", "build", "--quiet", "--isolation", "chroot", "--output", f"type=local,dest={archive}"]
    done = subprocess.run([*build, str(folder)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    taken = {file.relative_to(archive).as_posix() for file in archive.rglob("*") if file.is_file()}
    # A build reads its Dockerfile, whether or not a COPY finds it.
    listed = {file.relative_to(folder).as_posix() for file in context_files(folder)}
    assert listed - {"Dockerfile"} == taken - {"Dockerfile"}
