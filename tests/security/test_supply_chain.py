"""Threat: a registry or a publisher puts something else in the place of an image or a chart that was copied before."""

import hashlib
import shutil

import pytest

from tests.delivery.conftest import DOCUMENT, LOCK, aws, helm_archive, workshop
from tests.delivery.test_mirror import digest_of

__all__ = ["aws", "helm_archive", "workshop"]


@pytest.mark.usefixtures("helm_archive")
def test_an_image_that_was_published_again_under_its_tag_is_refused(aws):
    """The registry is gone, for example with its stack, and the bucket with what was recorded stays."""
    [image] = [image for image in DOCUMENT["images"] if image["name"] == "kueue"]
    assert LOCK["images"]["kueue"]["digest"] is None
    assert aws.run("mirror.sh", CHARTS="kueue").returncode == 0
    record = aws.root / f"s3/image-kueue-{image['tag']}.sha256"
    assert record.read_text() == digest_of(image)
    shutil.rmtree(aws.root / "ecr")
    before = len(aws.called("docker", "buildx", "imagetools", "create"))
    refused = aws.run("mirror.sh", CHARTS="kueue", PUBLISHED_AGAIN="other")
    assert refused.returncode == 78
    assert f"is {digest_of(image, 'other')}, and was {digest_of(image)} when it was first copied" in refused.stderr
    assert len(aws.called("docker", "buildx", "imagetools", "create")) == before
    assert aws.run("mirror.sh", CHARTS="kueue").returncode == 0
    assert aws.called("docker", "buildx", "imagetools", "create")[-1][-1] == f"{image['repository']}@{digest_of(image)}"


@pytest.mark.usefixtures("helm_archive")
def test_a_chart_that_was_published_again_under_its_version_is_refused(aws):
    assert aws.run("mirror.sh", CHARTS="nvidia-device-plugin").returncode == 0
    [record] = (aws.root / "s3").glob("chart-nvidia-device-plugin-*.sha256")
    shutil.rmtree(aws.root / "ecr")
    refused = aws.run("mirror.sh", CHARTS="nvidia-device-plugin", CHART_PUBLISHED_AGAIN="other")
    assert refused.returncode == 78
    assert f"and was {record.read_text()} when it was first copied" in refused.stderr
    assert len(aws.called("helm", "push")) == 1
    # The remedy that it names.
    record.unlink()
    assert aws.run("mirror.sh", CHARTS="nvidia-device-plugin", CHART_PUBLISHED_AGAIN="other").returncode == 0


@pytest.mark.usefixtures("helm_archive")
def test_a_chart_that_is_not_that_of_the_lock_is_refused_at_the_first_copy(aws):
    """No record of an earlier copy is necessary."""
    version = LOCK["charts"]["nvidia-device-plugin"]["version"]
    # As the stand-in of helm packs it.
    locked = hashlib.sha256(f"nvidia-device-plugin/{version}\n".encode()).hexdigest()
    aws.lock("charts", "nvidia-device-plugin", sha256=locked)
    refused = aws.run("mirror.sh", CHARTS="nvidia-device-plugin", CHART_PUBLISHED_AGAIN="other")
    other = hashlib.sha256(f"nvidia-device-plugin/{version}\nother\n".encode()).hexdigest()
    assert refused.returncode == 78
    assert f"is sha256:{other}, and delivery/mirror.lock.yaml has sha256:{locked}" in refused.stderr
    assert "Run `python -m delivery.refresh_lock --accept nvidia-device-plugin`" in refused.stderr
    assert aws.called("helm", "push") == []
    done = aws.run("mirror.sh", CHARTS="nvidia-device-plugin")
    assert done.returncode == 0, done.stderr
    assert len(aws.called("helm", "push")) == 1
    assert list((aws.root / "s3").glob("chart-*")) == []


@pytest.mark.parametrize("what", ["read", "write"])
@pytest.mark.usefixtures("helm_archive")
def test_a_record_that_cannot_be_read_or_written_is_kept_and_nothing_is_copied(aws, what):
    assert aws.run("mirror.sh", CHARTS="nvidia-device-plugin").returncode == 0
    [record] = (aws.root / "s3").glob("chart-nvidia-device-plugin-*.sha256")
    before = record.read_text()
    shutil.rmtree(aws.root / "ecr")
    error = {"S3_ERROR": "AccessDenied"}
    if what == "read":
        tool = aws.root / "bin/aws"
        denied = 'case "$1 $2 $3" in "s3 cp s3://"*/digests/*) echo AccessDenied >&2; exit 1 ;; esac\n'
        tool.write_text(tool.read_text().replace("# End of RECORD\n", f"# End of RECORD\n{denied}"))
        error = {}
    refused = aws.run("mirror.sh", CHARTS="nvidia-device-plugin", CHART_PUBLISHED_AGAIN="other", **error)
    assert refused.returncode == 1 and "AccessDenied" in refused.stderr
    assert record.read_text() == before
    assert len(aws.called("helm", "push")) == 1


SIGNER = [
    "--certificate-identity=krel-trust@k8s-releng-prod.iam.gserviceaccount.com",
    "--certificate-oidc-issuer=https://accounts.google.com",
]


@pytest.mark.usefixtures("helm_archive")
def test_an_image_without_the_signature_of_its_publisher_is_not_copied(aws):
    refused = aws.run("mirror.sh", CHARTS="kueue", UNSIGNED="kueue")
    assert refused.returncode == 1
    assert "the signature of registry.k8s.io/kueue/kueue@sha256:" in refused.stderr
    assert aws.called("docker", "buildx", "imagetools", "create") == []
    # The remedy for an image that somebody trusts nevertheless.
    [image] = [image for image in DOCUMENT["images"] if image["name"] == "kueue"]
    (aws.root / f"s3/image-kueue-{image['tag']}.signature").write_text(digest_of(image))
    assert aws.run("mirror.sh", CHARTS="kueue", UNSIGNED="kueue").returncode == 0


@pytest.mark.usefixtures("helm_archive")
def test_a_signature_is_verified_once_for_what_is_copied_and_recorded_with_its_signer(aws):
    """One digest is from the registry, and the other one from the list. Other publishers sign nothing."""
    for _ in range(2):
        done = aws.run("mirror.sh", CHARTS="kueue kubeflow-trainer")
        assert done.returncode == 0, done.stderr
        shutil.rmtree(aws.root / "ecr")
    verified = aws.called("cosign", "verify")
    copied = {call[-1] for call in aws.called("docker", "buildx", "imagetools", "create")}
    assert [call[2:-1] for call in verified] == [SIGNER, SIGNER]
    assert {call[-1] for call in verified} == {each for each in copied if each.startswith("registry.k8s.io/")}
    for call in verified:
        name = call[-1].partition("@")[0].rpartition("/")[2]
        [record] = (aws.root / "s3").glob(f"image-{name}-*.signature")
        assert record.read_text().split() == [call[-1].partition("@")[2], *SIGNER]
    [taken] = [call for call in aws.called("curl") if "cosign" in call[-1]]
    assert taken[-1] == DOCUMENT["tools"]["cosign"]["url"]


@pytest.mark.usefixtures("helm_archive")
def test_another_cosign_than_the_pinned_one_verifies_nothing(aws):
    with (aws.root / "published/cosign-linux-amd64").open("a") as file:
        file.write("exit 0\n")
    refused = aws.run("mirror.sh", CHARTS="kueue")
    assert refused.returncode == 1 and "is not the pinned one" in refused.stderr
    assert aws.called("cosign") == aws.called("docker", "buildx", "imagetools", "create") == []
