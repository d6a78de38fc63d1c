"""The image stage builds once for each hash of what the image is built from, in a closed network from a base in ECR."""

from tests.delivery.conftest import IMAGE_ARGUMENTS

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"

IMAGE = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee"}
CLOSED = {**IMAGE, "NETWORK_ACCESS": "closed", "BASE_TAG": "ba5e"}


def test_image_is_built_with_what_the_deploy_chose_and_its_digest_reported(aws):
    data = aws.root / "data"
    done = aws.run("image.sh", **IMAGE, STAGE_DATA_FILE=str(data))
    assert done.returncode == 0, done.stderr
    [build] = aws.called("docker", "buildx", "build")
    arguments = {build[at + 1] for at, word in enumerate(build) if word == "--build-arg"}
    wanted = {f"{name}={value}" for name, value in IMAGE_ARGUMENTS.items()}
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


def test_the_base_is_built_to_the_stage_python_and_otherwise_as_the_image_is(aws):
    for script in ("base_image.sh", "image.sh"):
        done = aws.run(script, **IMAGE, BASE_TAG="ba5e")
        assert done.returncode == 0, done.stderr
    base, image = aws.called("docker", "buildx", "build")
    assert base[-3:] == ["--target", "python", "."]
    assert image[-3:] == ["--build-arg", "IMAGE_REVISION=c0ffee", "."]
    assert base[: len(base) - 3] == [
        f"{REGISTRY}/atlas/mirror/training-base:ba5e" if word == f"{REGISTRY}/atlas/training:c0ffee" else word
        for word in image[: len(image) - 3]
    ]
    assert [call[-1] for call in aws.called("docker", "login")] == [REGISTRY, REGISTRY]


def test_a_base_that_exists_is_reused(aws):
    aws.run("base_image.sh", BASE_TAG="ba5e")
    done = aws.run("base_image.sh", BASE_TAG="ba5e")
    assert done.returncode == 0, done.stderr
    assert "exists, nothing to build" in done.stdout
    assert len(aws.called("docker", "buildx", "build")) == 1


def test_a_base_that_ecr_does_not_list_after_the_push_is_a_failure(aws):
    aws.stand_in("docker")
    done = aws.run("base_image.sh", BASE_TAG="ba5e")
    assert done.returncode == 1
    assert f"pushed {REGISTRY}/atlas/mirror/training-base:ba5e, but ECR does not list it" in done.stderr


def test_a_closed_network_builds_on_the_base_in_ecr_by_its_digest(aws):
    aws.run("base_image.sh", BASE_TAG="ba5e")
    digest = (aws.root / "ecr/atlas/mirror/training-base/ba5e").read_text().strip()
    done = aws.run("image.sh", **CLOSED)
    assert done.returncode == 0, done.stderr
    build = aws.called("docker", "buildx", "build")[-1]
    context = f"python=docker-image://{REGISTRY}/atlas/mirror/training-base@sha256:{digest}"
    assert build[-5:] == ["--build-arg", "IMAGE_REVISION=c0ffee", "--build-context", context, "."]


def test_only_a_closed_network_builds_on_the_base(aws):
    aws.run("base_image.sh", BASE_TAG="ba5e")
    aws.run("image.sh", **CLOSED | {"NETWORK_ACCESS": "private"})
    assert "--build-context" not in aws.called("docker", "buildx", "build")[-1]


def test_a_closed_network_without_the_base_stops_with_the_remedy(aws):
    done = aws.run("image.sh", **CLOSED)
    assert done.returncode == 1
    assert done.stderr == (
        "[delivery] error: a closed network cannot fetch what is missing: image atlas/mirror/training-base:ba5e. "
        "Run the command that the image stack prints as its output Supply on a machine with the internet, then deploy "
        "again\n"
    )
    assert aws.called("docker") == []


def test_a_closed_network_needs_no_base_for_an_image_that_exists(aws):
    aws.run("image.sh", **IMAGE)
    done = aws.run("image.sh", **CLOSED)
    assert done.returncode == 0, done.stderr
    assert len(aws.called("docker", "buildx", "build")) == 1


def test_a_closed_network_asks_for_the_base_along_with_the_rest(workshop):
    done = workshop.run("image.sh", NETWORK_ACCESS="closed", IMAGE_TAG="c0ffee")
    names = "IMAGE_REPOSITORY AWS_REGION MIRROR_REGISTRY MIRROR_PREFIX BASE_TAG"
    assert done.stderr == f"[delivery] error: missing environment variables: {names}\n"
