"""The base stage and the image stage build each content hash once. The image is built on the base image in ECR."""

import json

import pytest

from tests.delivery.conftest import DOCKER, ECR, IMAGE_ARGUMENTS, ROOT, push_base
from tests.representatives import with_representatives

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"

IMAGE = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee", "BASE_TAG": "ba5e"}
CLOSED = {**IMAGE, "NETWORK_ACCESS": "closed"}

# Docker with its containerd image store, as `docker info` shows it.
WITH_STORE = """[[ "$1" != info ]] || { echo '[["driver-type","io.containerd.snapshotter.v1"]]'; exit; }
"""


@pytest.fixture
def based(aws):
    """ECR with the base."""
    push_base(aws)
    return aws


def test_image_is_built_with_what_the_deploy_chose_and_its_digest_reported(based):
    data = based.root / "data"
    done = based.run("image.sh", **IMAGE, STAGE_DATA_FILE=str(data))
    assert done.returncode == 0, done.stderr
    [build] = based.pushed
    arguments = {build[at + 1] for at, word in enumerate(build) if word == "--build-arg"}
    wanted = {f"{name}={value}" for name, value in IMAGE_ARGUMENTS.items()}
    assert arguments == wanted | {"IMAGE_REVISION=c0ffee"}
    assert build[build.index("--tag") + 1] == f"{REGISTRY}/atlas/training:c0ffee"
    assert "push=true" in build[build.index("--output") + 1].split(",")
    assert data.read_text().startswith("sha256:")


def test_an_image_that_exists_is_reused(based):
    based.run("image.sh", **IMAGE)
    data = based.root / "data"
    done = based.run("image.sh", **IMAGE, STAGE_DATA_FILE=str(data))
    assert "exists, nothing to build" in done.stdout
    assert len(based.pushed) == 1
    assert data.read_text().startswith("sha256:")


def test_a_failed_build_fails_the_stage(based):
    based.stand_in("docker", '[[ "$1" != buildx ]] || { echo "no space left on device" >&2; exit 17; }\n')
    done = based.run("image.sh", **IMAGE)
    assert done.returncode == 17
    assert "no space left on device" in done.stderr


def test_an_ecr_error_is_not_taken_for_a_missing_image(based):
    done = based.run("image.sh", **IMAGE, ECR_ERROR="AccessDeniedException")
    assert done.returncode != 0
    assert "AccessDeniedException" in done.stderr
    assert based.called("docker") == []


def test_the_base_is_built_to_its_stage_and_otherwise_as_the_image_is(aws):
    for script in ("base.sh", "image.sh"):
        done = aws.run(script, **IMAGE)
        assert done.returncode == 0, done.stderr
    base, image = (call[:-1] for call in aws.pushed)
    assert base[-2:] == ["--target", "libraries"]
    for call in (base, image):
        for own in ("--file", "--tag", "--metadata-file"):
            del call[call.index(own) : call.index(own) + 2]
    assert image[: len(base) - 2] == base[:-2]
    assert [call[-1] for call in aws.called("docker", "login")] == [REGISTRY] * 3


def test_the_list_of_the_bases_packages_is_kept_before_the_base_is_pushed(aws):
    done = aws.run("base.sh", BASE_TAG="ba5e")
    assert done.returncode == 0, done.stderr
    first, second = aws.called("docker", "buildx", "build")
    assert first[first.index("--target") + 1] == "bill" and "--tag" not in first
    kept = next(call for call in aws.calls if call[:3] == ["aws", "s3", "cp"])
    assert kept[4] == "s3://bucket/mirror/bills/ba5e.spdx.json"
    assert aws.calls.index(first) < aws.calls.index(kept) < aws.calls.index(second)


def test_a_base_whose_list_cannot_be_kept_is_not_pushed(aws):
    aws.stand_in("aws", '[[ "$1" != s3 ]] || exit 1\n' + ECR)
    assert aws.run("base.sh", BASE_TAG="ba5e").returncode != 0
    assert aws.pushed == []


def test_a_base_that_exists_is_reused(aws):
    aws.run("base.sh", BASE_TAG="ba5e")
    done = aws.run("base.sh", BASE_TAG="ba5e")
    assert done.returncode == 0, done.stderr
    assert "exists, nothing to build" in done.stdout
    assert len(aws.pushed) == 1


def test_a_base_that_ecr_does_not_list_after_the_push_is_a_failure(aws):
    aws.stand_in("docker", DOCKER.replace("push() {", "push() { return;"))
    done = aws.run("base.sh", BASE_TAG="ba5e")
    assert done.returncode == 1
    assert f"pushed {REGISTRY}/atlas/mirror/training-base:ba5e, but ECR does not list it" in done.stderr


@pytest.mark.parametrize("network", with_representatives(["private", "closed"], ["closed"]))
def test_an_image_is_built_on_the_base_in_ecr_by_its_digest(based, network: str):
    digest = (based.root / "ecr/atlas/mirror/training-base/ba5e").read_text().strip()
    done = based.run("image.sh", **IMAGE, NETWORK_ACCESS=network)
    assert done.returncode == 0, done.stderr
    [build] = based.pushed
    context = f"libraries=docker-image://{REGISTRY}/atlas/mirror/training-base@sha256:{digest}"
    assert build[-5:-1] == ["--build-arg", "IMAGE_REVISION=c0ffee", "--build-context", context]


def test_an_image_whose_base_was_deleted_meanwhile_is_not_built(aws):
    done = aws.run("image.sh", **IMAGE)
    assert done.returncode == 1
    assert "ECR does not list the base image atlas/mirror/training-base:ba5e" in done.stderr
    assert "Deploy the image stack again" in done.stderr
    assert aws.called("docker") == []


def test_a_builder_with_the_containerd_image_store_begins_with_the_newest_cache_and_leaves_one(aws):
    aws.stand_in("docker", WITH_STORE + DOCKER)
    done = aws.run("base.sh", BASE_TAG="ba5e", CACHES="f00d\tcache-f00d\tcache-dead")
    assert done.returncode == 0, done.stderr
    [build] = aws.pushed
    repository = f"{REGISTRY}/atlas/mirror/training-base"
    assert build[build.index("--cache-from") + 1] == f"type=registry,ref={repository}:cache-f00d"
    kept = build[build.index("--cache-to") + 1].split(",")
    # What ECR stores: https://aws.amazon.com/blogs/containers/announcing-remote-cache-support-in-amazon-ecr-for-buildkit-clients/
    wanted = {f"ref={repository}:cache-ba5e", "mode=max", "image-manifest=true", "oci-mediatypes=true"}
    assert wanted <= set(kept)
    assert "compression=zstd" in build[build.index("--output") + 1].split(",")


def test_a_first_base_and_a_builder_without_that_store_have_no_cache(aws):
    aws.run("base.sh", BASE_TAG="ba5e")
    aws.stand_in("docker", WITH_STORE + DOCKER)
    aws.run("base.sh", BASE_TAG="f00d")
    without, first = aws.pushed
    assert not {"--cache-from", "--cache-to"} & set(without)
    assert without[without.index("--output") + 1] == "type=image,push=true"
    assert "--cache-to" in first and "--cache-from" not in first


def test_a_builder_with_that_store_pushes_the_image_without_fetching_its_base(based):
    based.stand_in("docker", WITH_STORE + DOCKER)
    done = based.run("image.sh", **IMAGE)
    assert done.returncode == 0, done.stderr
    [build] = based.pushed
    assert {"push=", "store=false", "compression=zstd"} <= set(build[build.index("--output") + 1].split(","))
    # Each instruction of the last stage leaves the files of the base alone.
    _, _, stage = (ROOT / "container/Dockerfile").read_text().rpartition("\nFROM libraries AS training\n")
    used = {line.split()[0] for line in stage.replace("\\\n", " ").splitlines() if line and not line.startswith("#")}
    assert used == {"ARG", "COPY", "LABEL", "USER", "ENTRYPOINT", "CMD"}
    assert stage.count("\nCOPY ") == stage.count("\nCOPY --link ") == 1


def test_a_builder_that_pushes_nothing_without_the_base_builds_in_the_usual_way(based):
    # buildx or BuildKit of another version: a push without a value pushes nothing.
    based.stand_in("docker", WITH_STORE + '[[ "$*" != *push=,* ]] || exit 0\n' + DOCKER)
    done = based.run("image.sh", **IMAGE)
    assert done.returncode == 0, done.stderr
    first, second = ([*build[build.index("--output") + 1].split(",")] for build in based.pushed)
    assert "push=" in first and "push=true" in second
    assert "it now fetches the base" in done.stdout


def test_codebuild_gets_a_builder_with_that_store(aws):
    aws.stand_in("docker", '[[ "${DOCKER_HOST:-}" != unix://* ]] || { ' + WITH_STORE + "}\n" + DOCKER)
    aws.stand_in("dockerd")
    done = aws.run("base.sh", BASE_TAG="ba5e", CODEBUILD_BUILD_ID="1", BUILDER_DATA=str(aws.root / "builds"))
    assert done.returncode == 0, done.stderr
    [daemon] = aws.called("dockerd")
    assert daemon[daemon.index("--config-file") + 1] == str(aws.root / "builds.json")
    assert json.loads((aws.root / "builds.json").read_text()) == {"features": {"containerd-snapshotter": True}}
    assert "--cache-to" in aws.pushed[0]


def test_codebuild_builds_without_a_cache_where_that_builder_does_not_start(aws):
    aws.stand_in("dockerd", "echo 'failed to start daemon' >&2\n")
    aws.stand_in("sleep")
    done = aws.run("base.sh", BASE_TAG="ba5e", CODEBUILD_BUILD_ID="1", BUILDER_DATA=str(aws.root / "builds"))
    assert done.returncode == 0, done.stderr
    assert "no builder with a cache: failed to start daemon" in done.stdout
    assert "--cache-to" not in aws.pushed[0]


def test_a_closed_network_without_the_base_stops_with_the_remedy(aws):
    done = aws.run("image.sh", **CLOSED)
    assert done.returncode == 78
    assert done.stderr == (
        "[delivery] error: a closed network cannot fetch what is missing: image atlas/mirror/training-base:ba5e. "
        "Run the command that the image stack prints as its output Supply on a machine with the internet, then deploy "
        "again\n"
    )
    assert aws.called("docker") == []


def test_a_closed_network_needs_no_base_for_an_image_that_exists(based):
    based.run("image.sh", **IMAGE)
    (based.root / "ecr/atlas/mirror/training-base/ba5e").unlink()
    done = based.run("image.sh", **CLOSED)
    assert done.returncode == 0, done.stderr
    assert len(based.pushed) == 1


def test_a_build_asks_for_the_base_along_with_the_rest(workshop):
    done = workshop.run("image.sh", IMAGE_TAG="c0ffee")
    names = "IMAGE_REPOSITORY AWS_REGION MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG BILLS_URI"
    assert done.stderr == f"[delivery] error: missing environment variables: {names}\n"
