"""Storage: the buckets' names, home directories, keys, and what is kept when the platform goes."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.buckets import ACCESS_LOGS, DATA, bucket_identity
from trainway.spec.derived.subnets import SubnetRole
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

# Every account's number has twelve digits.
SOME_ACCOUNT = "111122223333"


@rule
def bucket_names_fit(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The platform's name is a part of its buckets' names, beside account and Region."""
    most = service_facts().s3.name_length
    names = [bucket_identity(platform, role, SOME_ACCOUNT).name for role in (DATA, ACCESS_LOGS)]
    if (longest := max(map(len, names))) > most:
        reason = f"its buckets' names would have {longest} characters, and S3 allows {most}"
        yield ("name",), reason, f"make it {longest - most} characters shorter"


@rule
def home_is_of_slurm(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Slurm's users have home directories; a pod has a volume."""
    if platform.storage.home and platform.orchestrator is not Orchestrator.HYPERPOD_SLURM:
        reason = "nobody logs in to a Kubernetes node, and there is no EKS add-on that mounts OpenZFS in pods"
        yield ("storage", "home"), reason, "remove it, or use hyperpod-slurm"


@rule
def home_capacity_is_sold(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """FSx for OpenZFS has a least and a most capacity."""
    home = platform.storage.home
    low, high = service_facts().openzfs.capacity_gib
    if home and not low <= home.capacity_gib <= high:
        reason = f"FSx for OpenZFS sells between {low} and {high} GiB"
        yield ("storage", "home", "capacity_gib"), reason, f"write {min(max(home.capacity_gib, low), high)}"


# Beginnings and ends that S3 keeps for itself.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (read 2026-11-24)
RESERVED_BEGINNINGS = ("xn--", "sthree-", "amzn-s3-demo-")
RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


@rule
def the_bucket_has_no_name_of_s3s_own(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The name of the data bucket does not begin or end as S3 keeps for itself."""
    name = platform.storage.bucket.name
    chosen = name or f"{platform.name}-"
    key: KeyPath = ("storage", "bucket", "name") if name else ("name",)
    if taken := next((each for each in RESERVED_BEGINNINGS if chosen.startswith(each)), None):
        yield key, f"S3 keeps names that begin with {taken} for itself", "choose another name for the bucket"
    elif taken := next((each for each in RESERVED_ENDS if name and name.endswith(each)), None):
        yield key, f"S3 keeps names that end with {taken} for itself", "choose another name for the bucket"


@rule
def storage_keys_are_of_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A KMS key encrypts what is in its own Region."""
    storage = platform.storage
    keys = {name: lustre.key for name, lustre in storage.lustre_by_key.items()}
    keys |= {"bucket": storage.bucket.key, "home": storage.home.key if storage.home else None}
    for name, arn in keys.items():
        if arn and (region := arn.split(":")[3]) != platform.region:
            encrypted = "bucket" if name == "bucket" else "file system"
            reason = f"the key is in {region}, and the {encrypted} is in {platform.region}"
            fix = f"name a key of {platform.region}; of a multi-Region key, its replica there"
            yield ("storage", name, "key"), reason, fix


@rule
def what_is_kept_has_a_network_to_stay_in(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A file system's network interfaces hold its subnet and security groups, which could not be destroyed around it.

    https://docs.aws.amazon.com/vpc/latest/userguide/delete-vpc.html (read 2026-11-21)
    """
    existing, lustres = platform.network.existing, platform.storage.lustre_by_key
    for name, section in [*lustres.items(), ("home", platform.storage.home)]:
        if section is None or section.on_destroy == "delete":
            continue
        key: KeyPath = ("storage", name, "on_destroy")
        if existing is None or SubnetRole.STORAGE.value not in existing.subnets:
            reason = "the subnet that the file system is in is the platform's own, and would have to stay with it"
            yield (
                key,
                reason,
                "adopt a VPC with a subnet for `storage`; with `delete`, what is mirrored is in the bucket",
            )
        elif name in lustres and lustres[name].efa and existing.security_group is None:
            reason = "with EFA it is also in the nodes' security group, which would have to stay with it"
            yield key, reason, "adopt a security group as well"


@rule
def dynamic_volumes_are_of_kubernetes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A StorageClass is an object of Kubernetes."""
    if platform.storage.dynamic_volumes and not platform.orchestrator.is_kubernetes:
        key: KeyPath = ("storage", "lustre", "dynamic_volumes")
        yield key, "Slurm has no claims that a file system could be made for", "remove it"
