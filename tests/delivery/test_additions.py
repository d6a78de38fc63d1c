"""The additions stage builds packages and a Dockerfile of the user's on the base, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delivery.content_hash import image_hash
from delivery.user_dockerfile import OPTIONS, verified
from tests.delivery.conftest import IMAGE_ARGUMENTS, REGISTRY, ROOT, push_base

BASES = f"{REGISTRY}/atlas/mirror/training-base"
BOTH = {"BASE_TAG": "ba5e", "PACKAGES_TAG": "packages-1", "DOCKERFILE_TAG": "dockerfile-2"}
# A docker that keeps what it was given to build, beside the call.
KEEP = """[[ "$1" != buildx ]] || {
  kept=$S3/build-$(cat "$CALLS" | wc -l); mkdir -p "$kept"; cp -R "${@: -1}/." "$kept"
  for ((at = 1; at < $#; at++)); do
    next=$((at + 1))
    [[ "${!at}" != --file ]] || cp "${!next}" "$kept/built"
  done
}
"""


@pytest.fixture
def based(aws):
    """ECR with the base, and what the deploy found beside the platform file."""
    push_base(aws)
    context = aws.root / "additions/dockerfile"
    context.mkdir(parents=True)
    (aws.root / "additions/apt.txt").write_text("libaio-dev\n")
    (aws.root / "additions/pip.txt").write_text("einops==0.8.1 \\\n    --hash=sha256:00\n")
    (context / "Dockerfile").write_text("ARG TRAINWAY_BASE\nFROM ${TRAINWAY_BASE}\nCOPY tool /opt/tool")
    (context / "tool").write_text("#!/bin/sh\n")
    return aws


def option(call: list[str], name: str, beginning: str = "") -> str:
    """The value of an option that begins with some text."""
    values = [call[at + 1] for at, word in enumerate(call) if word == name and call[at + 1].startswith(beginning)]
    [value] = values
    return value


def test_the_packages_are_built_on_the_base_and_the_dockerfile_on_them(based):
    data = based.root / "data"
    done = based.run("additions.sh", **BOTH, STAGE_DATA_FILE=str(data))
    assert done.returncode == 0, done.stderr
    packages, dockerfile = based.pushed
    digests = {
        tag: (based.root / "ecr/atlas/mirror/training-base" / tag).read_text().strip()
        for tag in ("ba5e", "packages-1", "dockerfile-2")
    }
    assert option(packages, "--tag") == f"{BASES}:packages-1"
    assert option(packages, "--build-arg", "TRAINWAY_BASE=") == f"TRAINWAY_BASE={BASES}@sha256:{digests['ba5e']}"
    assert option(packages, "--build-arg", "VARIANT=") == f"VARIANT={IMAGE_ARGUMENTS['VARIANT']}"
    assert option(dockerfile, "--tag") == f"{BASES}:dockerfile-2"
    assert option(dockerfile, "--build-arg") == f"TRAINWAY_BASE={BASES}@sha256:{digests['packages-1']}"
    assert data.read_text() == f"sha256:{digests['dockerfile-2']}"


@pytest.mark.parametrize("left_out", ["PACKAGES_TAG", "DOCKERFILE_TAG"])
def test_a_platform_with_one_of_them_builds_that_on_the_base(based, left_out: str):
    done = based.run("additions.sh", **{**BOTH, left_out: "none"})
    assert done.returncode == 0, done.stderr
    [build] = based.pushed
    digest = (based.root / "ecr/atlas/mirror/training-base/ba5e").read_text().strip()
    assert option(build, "--build-arg", "TRAINWAY_BASE=").endswith(f"@sha256:{digest}")


def test_what_exists_is_not_built_again(based):
    based.run("additions.sh", **{**BOTH, "DOCKERFILE_TAG": "none"})
    data = based.root / "data"
    done = based.run("additions.sh", **BOTH, STAGE_DATA_FILE=str(data))
    assert f"{BASES}:packages-1 exists, nothing to build" in done.stdout
    _, dockerfile = based.pushed
    assert option(dockerfile, "--tag") == f"{BASES}:dockerfile-2"
    based.run("additions.sh", **BOTH)
    assert len(based.pushed) == 2


def test_each_build_gets_its_own_files_and_nothing_else(based):
    based.stand_in("docker", KEEP + (based.root / "bin/docker").read_text().partition("RECORD\n")[2])
    done = based.run("additions.sh", **BOTH)
    assert done.returncode == 0, done.stderr
    # The other two builds only read the list of packages.
    builds = sorted((based.root / "s3").glob("build-*"), key=lambda each: int(each.name.rpartition("-")[2]))
    first, _, second, _ = builds
    files = {
        each: {file.relative_to(each).as_posix() for file in each.rglob("*") if file.is_file()}
        for each in (first, second)
    }
    lists = {"additions/apt.txt", "additions/pip.txt"}
    assert files[first] == {"packages.Dockerfile", "bill_of_materials.py", "verify_image.py", "built", *lists}
    assert files[second] == {"Dockerfile", "tool", "built"}
    # The times and permissions on the builder are in no layer.
    assert (second / "tool").stat().st_mode & 0o777 == 0o755
    assert (second / "built").read_text().startswith((second / "Dockerfile").read_text())


def test_a_base_that_was_deleted_meanwhile_fails_the_stage(aws):
    done = aws.run("additions.sh", **BOTH)
    assert done.returncode == 1
    assert "ECR does not list the base image atlas/mirror/training-base:ba5e" in done.stderr


@pytest.mark.parametrize(
    ("left_out", "says"),
    [
        ("DOCKERFILE_TAG", "the packages of image.packages are not installed; the lines above say why"),
        ("PACKAGES_TAG", "the Dockerfile of image.dockerfile is not built, or breaks what the image had"),
    ],
)
def test_a_failed_build_fails_the_stage_with_the_key_of_the_platform_file(based, left_out: str, says: str):
    based.stand_in("docker", '[[ "$1" != buildx ]] || { echo "no such package" >&2; exit 17; }\n')
    done = based.run("additions.sh", **{**BOTH, left_out: "none"})
    assert done.returncode == 1
    assert "no such package" in done.stderr
    assert says in done.stderr


def test_a_dockerfile_ends_with_the_verification_and_the_list_of_packages_as_root_and_with_literals():
    arguments = {"VARIANT": "cpu", "PYTORCH_VERSION": "2.13.0", "BASE_IMAGE": "a:1", "SOURCE_DATE_EPOCH": "7"}
    text = verified("FROM a\nUSER 7\nRUN true", arguments)
    beginning, user, directory, run, bill = text.rstrip("\n").rsplit("\n", 4)
    assert beginning == "FROM a\nUSER 7\nRUN true\n"
    assert user == "USER 0:0"
    # The last stage of the image sets none, because that would fetch the base.
    assert directory in (ROOT / "container/Dockerfile").read_text().splitlines()
    words = json.loads(run[run.index("[") :])
    assert words[:4] == ["python", "/tmp/trainway/verify_image.py", "cpu", "--added"]
    assert words[words.index("--pytorch") + 1] == "2.13.0"
    assert words[words.index("--nemo") + 1] == ""
    words = json.loads(bill[bill.index("[") :])
    assert words[:2] == ["env", "SOURCE_DATE_EPOCH=7"]
    assert words[2:] == ["python", "/tmp/trainway/bill_of_materials.py", "/opt/trainway/sbom.spdx.json", "a:1"]


@pytest.mark.parametrize("left_out", ["", "PACKAGES_TAG", "DOCKERFILE_TAG"])
def test_the_list_of_the_packages_of_each_addition_is_kept_by_its_tag(based, left_out: str):
    tags = BOTH | ({left_out: "none"} if left_out else {})
    (based.root / "s3/ba5e.spdx.json").unlink()
    done = based.run("additions.sh", **tags)
    assert done.returncode == 0, done.stderr
    kept = {each.name.partition(".")[0] for each in (based.root / "s3").glob("*.spdx.json")}
    assert kept == set(tags.values()) - {"ba5e", "none"}


def test_the_verification_gets_every_option_of_the_script(workshop):
    script = (workshop.root / "container/verify_image.py").read_text()
    options = script[script.index("OPTIONS = (") :].partition(")")[0]
    assert set(OPTIONS) == {word.strip('",') for word in options.split() if word.startswith('"--')} | {"--layout"}


def tags(root: Path) -> dict[str, str]:
    return {each: image_hash(root, each, IMAGE_ARGUMENTS) for each in ("base", "packages", "dockerfile", "image")}


@pytest.fixture
def checkout(workshop) -> Path:
    (workshop.root / "training").mkdir()
    (workshop.root / "training/train.py").write_text("")
    return workshop.root


def test_a_platform_that_adds_nothing_has_the_tags_of_before(checkout: Path):
    assert tags(checkout)["packages"] == tags(checkout)["dockerfile"] == "none"


def test_each_addition_has_a_tag_of_its_own_and_changes_what_is_above_it(checkout: Path):
    plain = tags(checkout)
    (checkout / "additions/dockerfile").mkdir(parents=True)
    (checkout / "additions/dockerfile/Dockerfile").write_text("FROM a\n")
    built = tags(checkout)
    assert changed(plain, built) == {"dockerfile", "image"}
    (checkout / "additions/pip.txt").write_text("# A comment.\neinops==0.8.1\n")
    installed = tags(checkout)
    assert changed(built, installed) == {"packages", "dockerfile", "image"}
    (checkout / "additions/pip.txt").write_text("# Another comment.\neinops==0.8.1\n")
    assert tags(checkout) == installed
    (checkout / "additions/dockerfile/x.pyc").write_text("")
    assert changed(installed, tags(checkout)) == {"dockerfile", "image"}
    (checkout / "training/train.py").write_text("import sys\n")
    (checkout / "additions/dockerfile/x.pyc").unlink()
    assert changed(installed, tags(checkout)) == {"image"}


def test_another_base_is_another_image_of_packages(checkout: Path):
    (checkout / "additions").mkdir()
    (checkout / "additions/apt.txt").write_text("libaio-dev\n")
    before = tags(checkout)
    dockerfile = checkout / "container/Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("useradd --create-home", "useradd --system --create-home"))
    assert changed(before, tags(checkout)) == {"base", "packages", "image"}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}
