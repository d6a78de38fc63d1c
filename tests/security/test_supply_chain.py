"""Threat: a registry or a publisher puts something else in the place of an image or a chart that was copied before."""

import shutil

import pytest

from tests.delivery.conftest import DOCUMENT, aws, helm_archive, workshop
from tests.delivery.test_mirror import digest_of

__all__ = ["aws", "helm_archive", "workshop"]


@pytest.mark.usefixtures("helm_archive")
def test_an_image_that_was_published_again_under_its_tag_is_refused(aws):
    """The registry is gone, for example with its stack, and the bucket with what was recorded stays."""
    [image] = [image for image in DOCUMENT["images"] if image["name"] == "kueue"]
    assert image["digest"] is None
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
