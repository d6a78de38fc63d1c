"""What a launch knows of its platform: the hand-off of the last deploy, or what the platform file describes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final, Literal

from trainway.launch.platform.hand_off import NotReadError, read_hand_off, read_image
from trainway.manifests.hand_off import DeployedFileSystem, DeployedValues, hand_off_document
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff, TrainingJobs
from trainway.spec.handoff_names import DEFAULT_IMAGE, image_repository
from trainway.spec.jobs.obtainable import completed
from trainway.spec.partition import partition_of
from trainway.spec.platform import Platform
from trainway.spec.storage.buckets import DATA, bucket_identity
from trainway.spec.teams.team_data import team_prefixes

HandOffSource = Literal["deployed", "deployed or file", "file"]
"""Where a hand-off is from. A launch needs a `deployed` platform, a dry run reads the `deployed` one if it can."""


@dataclass(frozen=True)
class KnownPlatform:
    """A platform file, and the hand-off. If it is not `deployed`, the hand-off is what the file describes."""

    platform: Platform
    hand_off: HandOff
    deployed: bool = True

    def image(self, name: str) -> str:
        """Return an image of the platform by its digest.

        Raises UsageError if the platform has no image of this name, and as `read_image` does if it is deployed.
        """
        if self.deployed:
            return read_image(self.platform, self.hand_off, name)
        if name not in (known := self.hand_off.image_uris):
            why = f"the platform file of {self.platform.name} describes no image of this name"
            fix = f"use one of {', '.join(known)}, or describe it below `images`"
            raise usage_error(f"there is no image {name}", why=why, fix=fix)
        return described_image(self.hand_off, name)


def known_platform(platform: Platform, catalogue: Catalogue, source: HandOffSource) -> KnownPlatform:
    """Return what is known of a platform. Standard error says if the file is used because AWS cannot be asked.

    Raises UsageError as `read_hand_off` does, unless the source may be the file.
    """
    if source != "file":
        try:
            return KnownPlatform(platform, completed(read_hand_off(platform), platform, catalogue))
        except NotReadError as error:
            if source == "deployed":
                raise
            why = f"the deployed platform was not read: {error.why.rstrip('.')}"
            print(f"platform: {platform.name} as its file describes it, because {why}; {STAND_INS}", file=sys.stderr)
    return KnownPlatform(platform, described_hand_off(platform, catalogue), deployed=False)


# Values of the right form that a reader takes for no real ones.
_ACCOUNT: Final = "0" * 12
_ID: Final = "0" * 17
_MOUNT_NAME: Final = "0" * 8
_DIGEST: Final = "0" * 64
STAND_INS: Final = "zeros stand for what only a deploy knows: the account, IDs, and the digests of images"


def described_hand_off(platform: Platform, catalogue: Catalogue) -> HandOff:
    """Return the hand-off that a deploy of the platform would write, with zeros for what only a deploy knows."""
    values = DeployedValues(
        bucket=bucket_identity(platform, DATA, _ACCOUNT).name,
        image_uri=_image(platform, DEFAULT_IMAGE),
        images={name: _image(platform, name) for name in platform.image_names if name != DEFAULT_IMAGE},
        cluster_arn=_cluster_arn(platform),
        file_system=_file_system(platform),
        training_jobs=_training_jobs(platform) if platform.iam.training_jobs else None,
    )
    return hand_off_document(platform, catalogue, values)


def described_image(hand_off: HandOff, image: str) -> str:
    """Return the name of an image by its digest, which is zeros unless the platform file states it."""
    uri = hand_off.image_uris[image]
    if "@" in uri:
        return uri
    registry, slash, name = uri.rpartition("/")
    return f"{registry}{slash}{name.partition(':')[0]}@sha256:{_DIGEST}"


def _cluster_arn(platform: Platform) -> str:
    """Return the ARN of the cluster. HyperPod chooses the ID in that of its cluster."""
    before = f"arn:{partition_of(platform.region)}"
    if platform.orchestrator.is_hyperpod:
        return f"{before}:sagemaker:{platform.region}:{_ACCOUNT}:cluster/{'0' * 12}"
    if adopted := platform.adopted_cluster:
        return adopted.arn
    return f"{before}:eks:{platform.region}:{_ACCOUNT}:cluster/{platform.name}"


def _image(platform: Platform, name: str) -> str:
    """Return the URI of an image. The tag of one that a deploy builds is the hash of what it is built from."""
    if own := platform.of_image(name).image.uri:
        return own
    repository = image_repository(platform.name, name)
    return f"{_ACCOUNT}.dkr.ecr.{platform.region}.{_suffix(platform.region)}/{repository}:{'0' * 16}"


def _file_system(platform: Platform) -> DeployedFileSystem | None:
    lustre = platform.storage.lustre
    if lustre is None:
        return None
    if existing := lustre.existing:
        return DeployedFileSystem(
            file_system_id=existing.file_system_id,
            dns_name=existing.dns_name,
            mount_name=existing.mount_name,
            subnet_id=f"subnet-{_ID}",
            security_group_id=existing.security_group_id,
        )
    return DeployedFileSystem(
        file_system_id=f"fs-{_ID}",
        dns_name=f"fs-{_ID}.fsx.{platform.region}.{_suffix(platform.region)}",
        mount_name=_MOUNT_NAME,
        subnet_id=f"subnet-{_ID}",
        security_group_id=f"sg-{_ID}",
    )


def _training_jobs(platform: Platform) -> TrainingJobs:
    role = f"arn:{partition_of(platform.region)}:iam::{_ACCOUNT}:role/{platform.name}-training-jobs"
    return TrainingJobs(
        role_arn=role,
        team_role_arns={team: f"{role}-{team}" for team in team_prefixes(platform)},
        subnet_ids={group.name: f"subnet-{_ID}" for group in platform.node_groups},
        security_group_ids=(f"sg-{_ID}",),
    )


def _suffix(region: str) -> str:
    return "amazonaws.com.cn" if partition_of(region) == "aws-cn" else "amazonaws.com"
