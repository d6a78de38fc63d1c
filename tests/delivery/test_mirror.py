"""The mirror stage copies every chart and image once, and only what is pinned; in a closed network, nothing."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"

REMEDY = (
    "Run the command that the image stack prints as its output Supply on a machine with the internet, then deploy again"
)


@pytest.mark.usefixtures("helm_archive")
def test_every_image_is_copied_once(aws):
    done = aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks")
    assert done.returncode == 0, done.stderr
    document = yaml.safe_load((ROOT / "delivery/mirror.yaml").read_text())
    copies = {call[-2]: call[-1] for call in aws.called("docker", "buildx", "imagetools", "create")}
    assert copies == {
        f"{REGISTRY}/atlas/mirror/{image['name']}:{image['tag']}": (
            f"{image['repository']}@{image['digest']}" if image["digest"] else f"{image['repository']}:{image['tag']}"
        )
        for image in document["images"]
    }
    aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks")
    assert len(aws.called("docker", "buildx", "imagetools", "create")) == len(document["images"])


@pytest.mark.parametrize(("orchestrator", "count"), [("eks", 3), ("hyperpod-eks", 4)])
@pytest.mark.usefixtures("helm_archive")
def test_the_orchestrators_charts_are_pushed(aws, orchestrator: str, count: int):
    done = aws.run("mirror.sh", ORCHESTRATOR=orchestrator)
    assert done.returncode == 0, done.stderr
    pushes = aws.called("helm", "push")
    assert len(pushes) == count
    assert {call[-1] for call in pushes} == {f"oci://{REGISTRY}/atlas/mirror/charts"}


@pytest.mark.usefixtures("helm_archive")
def test_hyperpods_chart_is_packed_from_the_pinned_commit(aws):
    aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks")
    [fetch] = [call for call in aws.called("git", "-C") if "fetch" in call]
    assert fetch[-1] == "011ca927123e02b35a399935bbb3ab1905fe33c7"
    [package] = aws.called("helm", "package")
    assert package[package.index("--version") + 1] == "0.1.0-011ca92"


@pytest.mark.usefixtures("helm_archive")
def test_charts_that_exist_are_left_alone(aws):
    for chart in yaml.safe_load((ROOT / "delivery/mirror.yaml").read_text())["charts"]:
        folder = aws.root / "ecr/atlas/mirror/charts" / chart["chart"]
        folder.mkdir(parents=True)
        (folder / chart["version"]).write_text("1")
    done = aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks")
    assert done.returncode == 0, done.stderr
    assert aws.called("helm", "pull") + aws.called("helm", "push") == []


def test_helm_is_kept_for_stages_without_the_internet(aws, helm_archive):
    aws.run("mirror.sh", ORCHESTRATOR="eks")
    aws.run("mirror.sh", ORCHESTRATOR="eks")
    assert len(aws.called("curl")) == 1
    assert (aws.root / "s3" / helm_archive.name).exists()


def test_a_helm_with_another_checksum_is_refused(aws, helm_archive):
    helm_archive.write_bytes(b"something else")
    done = aws.run("mirror.sh", ORCHESTRATOR="eks")
    assert done.returncode == 1
    assert "not the pinned one" in done.stderr
    assert not (aws.root / "s3" / helm_archive.name).exists()


def test_a_closed_network_that_lacks_everything_names_all_of_it_at_once_and_fetches_nothing(aws, helm_archive):
    done = aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks", NETWORK_ACCESS="closed")
    document = yaml.safe_load((ROOT / "delivery/mirror.yaml").read_text())
    lacking = [f"helm (s3://bucket/mirror/tools/{helm_archive.name})"]
    lacking += [f"image atlas/mirror/{image['name']}:{image['tag']}" for image in document["images"]]
    lacking += [f"chart atlas/mirror/charts/{chart['chart']}:{chart['version']}" for chart in document["charts"]]
    assert done.returncode == 1
    assert done.stderr == (
        f"[delivery] error: a closed network cannot fetch what is missing: {', '.join(lacking)}. {REMEDY}\n"
    )
    assert {tuple(call[:3]) for call in aws.calls} == {("aws", "s3", "cp"), ("aws", "ecr", "describe-images")}


@pytest.mark.usefixtures("helm_archive")
def test_a_closed_network_names_only_what_is_missing(aws):
    aws.run("mirror.sh", ORCHESTRATOR="eks")
    (aws.root / "ecr/atlas/mirror/jobset/v0.12.0").unlink()
    done = aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks", NETWORK_ACCESS="closed")
    assert done.returncode == 1
    lacking = "image atlas/mirror/jobset:v0.12.0, chart atlas/mirror/charts/hyperpod-helm-chart:0.1.0-011ca92"
    assert done.stderr.endswith(f" what is missing: {lacking}. {REMEDY}\n")


@pytest.mark.usefixtures("helm_archive")
def test_a_closed_network_that_lacks_nothing_ends_well_without_a_copy(aws):
    aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks", NETWORK_ACCESS="private")
    before, data = len(aws.calls), aws.root / "data"
    done = aws.run("mirror.sh", ORCHESTRATOR="hyperpod-eks", NETWORK_ACCESS="closed", STAGE_DATA_FILE=str(data))
    assert done.returncode == 0, done.stderr
    assert "copied 0 of 8 charts and images" in done.stdout
    assert data.read_text() == "0"
    assert {tuple(call[:3]) for call in aws.calls[before:]} == {("aws", "s3", "cp"), ("aws", "ecr", "describe-images")}


def test_an_ecr_error_in_a_closed_network_is_not_taken_for_a_missing_image(aws):
    done = aws.run("mirror.sh", ORCHESTRATOR="eks", NETWORK_ACCESS="closed", ECR_ERROR="AccessDeniedException")
    assert done.returncode == 1
    assert "AccessDeniedException" in done.stderr
    assert "what is missing" not in done.stderr
