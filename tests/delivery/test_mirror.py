"""The mirror stage copies every chart and image once, and only what is pinned; in a closed network, nothing."""

import hashlib

import pytest
import yaml

from tests.delivery.conftest import (
    DOCUMENT,
    EKS,
    EVERY_CHART,
    HYPERPOD_EKS,
    LOCK,
    LOCKED_IMAGES,
    MANIFEST,
    REGISTRY,
    listed,
)

REMEDY = (
    "Run the command that the image stack prints as its output Supply on a machine with the internet, then deploy again"
)


def digest_of(image: dict[str, str], again: str = "") -> str:
    """What the stand-in of the registries says of an image whose digest is not known."""
    published = f"{image['repository']}:{image['tag']}{again}"
    return f"sha256:{hashlib.sha256(published.encode()).hexdigest()}"


@pytest.mark.usefixtures("helm_archive")
def test_a_source_without_a_digest_is_not_copied(aws):
    aws.stand_in("docker", "")
    done = aws.run("mirror.sh", CHARTS="kueue")
    assert done.returncode == 1 and "has no digest, but ''" in done.stderr
    assert aws.called("docker", "buildx", "imagetools", "create") == []


@pytest.mark.usefixtures("helm_archive")
def test_an_image_is_copied_by_the_digest_of_the_lock_and_nothing_is_recorded(aws):
    done = aws.run("mirror.sh", CHARTS="nvidia-device-plugin")
    assert done.returncode == 0, done.stderr
    [image] = [image for image in DOCUMENT["images"] if image["name"] == LOCKED_IMAGES[0]]
    [copied] = aws.called("docker", "buildx", "imagetools", "create")
    assert copied[-1] == f"{image['repository']}@sha256:{64 * 'd'}"
    assert aws.called("docker", "buildx", "imagetools", "inspect") == list((aws.root / "s3").glob("image-*")) == []


@pytest.mark.exhaustive
@pytest.mark.usefixtures("helm_archive")
def test_every_image_is_copied_once(aws):
    done = aws.run("mirror.sh", CHARTS=EVERY_CHART)
    assert done.returncode == 0, done.stderr
    copies = {call[-2]: call[-1] for call in aws.called("docker", "buildx", "imagetools", "create")}
    assert copies == {
        f"{REGISTRY}/atlas/mirror/{image['name']}:{image['tag']}": (
            f"{image['repository']}@{LOCK['images'][image['name']]['digest'] or digest_of(image)}"
        )
        for image in DOCUMENT["images"]
    }
    aws.run("mirror.sh", CHARTS=EVERY_CHART)
    assert len(aws.called("docker", "buildx", "imagetools", "create")) == len(DOCUMENT["images"])


@pytest.mark.parametrize(
    ("charts", "count"),
    [
        # As the next one, without the chart that is packed from git.
        pytest.param(EKS, 3, marks=pytest.mark.exhaustive),
        (HYPERPOD_EKS, 4),
        pytest.param(f"kueue {EKS} neuron-helm-chart", 5, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.usefixtures("helm_archive")
def test_the_chosen_charts_are_pushed(aws, charts: str, count: int):
    done = aws.run("mirror.sh", CHARTS=charts)
    assert done.returncode == 0, done.stderr
    pushes = aws.called("helm", "push")
    assert len(pushes) == count
    assert {call[-1] for call in pushes} == {f"oci://{REGISTRY}/atlas/mirror/charts"}


@pytest.mark.usefixtures("helm_archive")
def test_only_images_that_the_chosen_charts_name_are_copied(aws):
    aws.run("mirror.sh", CHARTS="neuron-helm-chart kubeflow-trainer")
    copies = [call[-2] for call in aws.called("docker", "buildx", "imagetools", "create")]
    names = ["neuron-device-plugin", "trainer-controller-manager", "jobset"]
    assert copies == [f"{REGISTRY}/atlas/mirror/{name}:{listed('images', name)['tag']}" for name in names]


@pytest.mark.parametrize(("charts", "logged_in"), [("aws-dranet", True), ("kueue nvidia-device-plugin", False)])
@pytest.mark.usefixtures("helm_archive")
def test_aws_registries_are_logged_in_to_where_an_image_is_in_one(aws, charts: str, logged_in: bool):
    done = aws.run("mirror.sh", CHARTS=charts)
    assert done.returncode == 0, done.stderr
    source = "602401143452.dkr.ecr.us-west-2.amazonaws.com"
    assert [call[-1] for call in aws.called("docker", "login")] == [REGISTRY, *([source] if logged_in else [])]


@pytest.mark.usefixtures("helm_archive")
def test_the_login_is_of_the_registrys_region_and_not_of_the_platforms(aws):
    aws.run("mirror.sh", CHARTS="aws-dranet", AWS_REGION="eu-west-1")
    regions = [call[-1] for call in aws.called("aws", "ecr", "get-login-password")]
    assert regions == ["eu-west-1", "us-west-2"]


@pytest.mark.parametrize(("charts", "is_asked"), [("mpi-operator", True), ("kueue", False)])
@pytest.mark.usefixtures("helm_archive")
def test_docker_hub_is_logged_in_to_with_the_secret_where_an_image_is_there(aws, charts: str, is_asked: bool):
    secret = "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf"
    login = 'if [[ "$1" == secretsmanager ]]; then echo \'{"username": "me", "password": "a password"}\'; exit; fi\n'
    aws.stand_in("aws", login + (aws.root / "bin/aws").read_text().split("RECORD\n")[-1])
    done = aws.run("mirror.sh", CHARTS=charts, DOCKER_HUB_SECRET=secret)
    assert done.returncode == 0, done.stderr
    hub = [call for call in aws.called("docker", "login") if call[-1] == "docker.io"]
    assert bool(hub) == is_asked and bool(aws.called("docker", "logout", "docker.io")) == is_asked
    assert "a password" not in done.stdout + done.stderr + str(aws.calls)


@pytest.mark.usefixtures("helm_archive")
def test_a_chart_that_does_not_exist_stops_before_anything_is_copied(aws):
    done = aws.run("mirror.sh", CHARTS="kubeflow-trainer kuueue")
    assert done.returncode == 2
    assert "mirror.yaml has no chart kuueue" in done.stderr
    assert aws.called("docker", "buildx") + aws.called("helm", "push") == []


@pytest.mark.parametrize(("kind", "key"), [("images", "tag"), ("charts", "version")])
@pytest.mark.usefixtures("helm_archive")
def test_a_version_that_the_lock_does_not_have_stops_before_anything_is_copied(aws, kind: str, key: str):
    aws.lock(kind, "kueue", **{key: "v0.0.1"})
    done = aws.run("mirror.sh", CHARTS="kubeflow-trainer kueue")
    assert done.returncode == 2
    assert "(it has v0.0.1). Run `python -m delivery.refresh_lock kueue`" in done.stderr
    assert aws.called("docker", "buildx") + aws.called("helm", "push") == []


@pytest.mark.usefixtures("helm_archive")
def test_a_manifest_is_kept_in_the_bucket_under_its_checksum_and_once(aws):
    for _ in range(2):
        done = aws.run("mirror.sh", CHARTS="mpi-operator")
        assert done.returncode == 0, done.stderr
    [kept] = [call[4] for call in aws.called("aws", "s3", "cp") if "/manifests/mpi-" in call[4]]
    charts = yaml.safe_load((aws.root / "delivery/mirror.yaml").read_text())["charts"]
    [chart] = [each for each in charts if each["chart"] == "mpi-operator"]
    assert kept == f"s3://bucket/mirror/manifests/mpi-operator-{chart['manifest']['sha256']}.yaml"
    assert (aws.root / "s3" / kept.rpartition("/")[2]).read_text() == MANIFEST
    assert [call[-1] for call in aws.called("curl") if call[-1].endswith(".yaml")] == [chart["manifest"]["url"]]
    assert aws.called("helm", "push") == []


@pytest.mark.usefixtures("helm_archive")
def test_a_manifest_with_another_checksum_is_refused(aws):
    (aws.root / "published/mpi-operator.yaml").write_text(MANIFEST + "---\nkind: ClusterRoleBinding\n")
    done = aws.run("mirror.sh", CHARTS="mpi-operator")
    assert done.returncode == 1
    assert "mpi-operator.yaml is not the pinned one" in done.stderr
    assert list((aws.root / "s3").glob("mpi-operator*")) == []


@pytest.mark.usefixtures("helm_archive")
def test_hyperpods_chart_is_packed_from_the_pinned_commit(aws):
    aws.run("mirror.sh", CHARTS=HYPERPOD_EKS)
    [fetch] = [call for call in aws.called("git", "-C") if "fetch" in call]
    chart = listed("charts", "hyperpod-helm-chart")
    assert fetch[-1] == chart["git"]["commit"]
    [package] = aws.called("helm", "package")
    assert package[package.index("--version") + 1] == chart["version"]


@pytest.mark.usefixtures("helm_archive")
def test_charts_that_exist_are_left_alone(aws):
    for chart in DOCUMENT["charts"]:
        folder = aws.root / "ecr/atlas/mirror/charts" / chart["chart"]
        folder.mkdir(parents=True)
        (folder / chart["version"]).write_text("1")
    done = aws.run("mirror.sh", CHARTS=HYPERPOD_EKS)
    assert done.returncode == 0, done.stderr
    assert aws.called("helm", "pull") + aws.called("helm", "push") == []


def test_helm_is_kept_for_stages_without_the_internet(aws, helm_archive):
    aws.run("mirror.sh", CHARTS=EKS)
    aws.run("mirror.sh", CHARTS=EKS)
    assert [call[-1] for call in aws.called("curl")] == [DOCUMENT["tools"][name]["url"] for name in ("helm", "cosign")]
    assert (aws.root / "s3" / helm_archive.name).exists()


def test_a_helm_with_another_checksum_is_refused(aws, helm_archive):
    helm_archive.write_bytes(b"something else")
    done = aws.run("mirror.sh", CHARTS=EKS)
    assert done.returncode == 1
    assert "not the pinned one" in done.stderr
    assert not (aws.root / "s3" / helm_archive.name).exists()


def test_a_closed_network_that_lacks_everything_names_all_of_it_at_once_and_fetches_nothing(aws, helm_archive):
    done = aws.run("mirror.sh", CHARTS=EVERY_CHART, NETWORK_ACCESS="closed")
    charts = yaml.safe_load((aws.root / "delivery/mirror.yaml").read_text())["charts"]
    lacking = [f"helm (s3://bucket/mirror/tools/{helm_archive.name})"]
    lacking += [f"image atlas/mirror/{image['name']}:{image['tag']}" for image in DOCUMENT["images"]]
    lacking += [
        f"manifest {chart['chart']} (s3://bucket/mirror/manifests/{chart['chart']}-{chart['manifest']['sha256']}.yaml)"
        if "manifest" in chart
        else f"chart atlas/mirror/charts/{chart['chart']}:{chart['version']}"
        for chart in charts
        if chart["chart"] in EVERY_CHART.split()
    ]
    assert done.returncode == 78
    assert done.stderr == (
        f"[delivery] error: a closed network cannot fetch what is missing: {', '.join(lacking)}. {REMEDY}\n"
    )
    assert {tuple(call[:3]) for call in aws.calls} == {("aws", "s3", "cp"), ("aws", "ecr", "describe-images")}


@pytest.mark.usefixtures("helm_archive")
def test_a_closed_network_names_only_what_is_missing(aws):
    aws.run("mirror.sh", CHARTS=EKS)
    tag, version = listed("images", "jobset")["tag"], listed("charts", "hyperpod-helm-chart")["version"]
    (aws.root / f"ecr/atlas/mirror/jobset/{tag}").unlink()
    done = aws.run("mirror.sh", CHARTS=HYPERPOD_EKS, NETWORK_ACCESS="closed")
    assert done.returncode == 78
    lacking = f"image atlas/mirror/jobset:{tag}, chart atlas/mirror/charts/hyperpod-helm-chart:{version}"
    assert done.stderr.endswith(f" what is missing: {lacking}. {REMEDY}\n")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("helm_archive")
def test_a_closed_network_that_lacks_nothing_ends_well_without_a_copy(aws):
    aws.run("mirror.sh", CHARTS=EVERY_CHART, NETWORK_ACCESS="private")
    before, data = len(aws.calls), aws.root / "data"
    done = aws.run("mirror.sh", CHARTS=EVERY_CHART, NETWORK_ACCESS="closed", STAGE_DATA_FILE=str(data))
    assert done.returncode == 0, done.stderr
    every = len(DOCUMENT["images"]) + len(EVERY_CHART.split())
    assert f"copied 0 of {every} charts and images" in done.stdout
    assert data.read_text() == "0"
    assert {tuple(call[:3]) for call in aws.calls[before:]} == {("aws", "s3", "cp"), ("aws", "ecr", "describe-images")}


def test_an_ecr_error_in_a_closed_network_is_not_taken_for_a_missing_image(aws):
    done = aws.run("mirror.sh", CHARTS=EKS, NETWORK_ACCESS="closed", ECR_ERROR="AccessDeniedException")
    assert done.returncode == 1
    assert "AccessDeniedException" in done.stderr
    assert "what is missing" not in done.stderr
