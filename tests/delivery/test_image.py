"""The image stage builds once for each hash of what the image is built from."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"

IMAGE = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee"}


def test_image_is_built_with_every_version_and_its_digest_reported(aws):
    data = aws.root / "data"
    done = aws.run("image.sh", **IMAGE, STAGE_DATA_FILE=str(data))
    assert done.returncode == 0, done.stderr
    [build] = aws.called("docker", "buildx", "build")
    arguments = {build[at + 1] for at, word in enumerate(build) if word == "--build-arg"}
    versions = yaml.safe_load((ROOT / "container/versions.yaml").read_text())
    wanted = {f"{entry['build_argument']}={entry['value']}" for entry in versions.values()}
    assert arguments == wanted | {"IMAGE_REVISION=c0ffee"}
    assert build[build.index("--tag") + 1] == f"{REGISTRY}/atlas/training:c0ffee"
    assert "--push" in build
    assert data.read_text().startswith("sha256:")


def test_an_image_that_exists_is_reused(aws):
    aws.run("image.sh", **IMAGE)
    data = aws.root / "data"
    done = aws.run("image.sh", **IMAGE, STAGE_DATA_FILE=str(data))
    assert "exists, nothing to build" in done.stdout
    assert len(aws.called("docker", "buildx", "build")) == 1
    assert data.read_text().startswith("sha256:")


def test_a_failed_build_fails_the_stage(aws):
    aws.stand_in("docker", '[[ "$1" != buildx ]] || { echo "no space left on device" >&2; exit 17; }\n')
    done = aws.run("image.sh", **IMAGE)
    assert done.returncode == 17
    assert "no space left on device" in done.stderr


def test_an_ecr_error_is_not_taken_for_a_missing_image(aws):
    done = aws.run("image.sh", **IMAGE, ECR_ERROR="AccessDeniedException")
    assert done.returncode != 0
    assert "AccessDeniedException" in done.stderr
    assert aws.called("docker") == []
