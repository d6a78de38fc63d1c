"""Rules about storage: buckets, imported prefixes, home directories, and file systems that are deployed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.lock import LockedHome, LockedLustre
from trainway.spec.network.subnets import SubnetRole
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.sections.storage import Lustre
from trainway.spec.storage.buckets import ACCESS_LOGS, DATA, bucket_identity
from trainway.spec.storage.locked_file_systems import locked_home, locked_lustre

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


_ACCOUNT = "ACCOUNT"


@rule
def what_is_mirrored_is_not_imported(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No import overlaps a prefix of the data bucket that is mirrored: FSx links an object to one directory.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html (read 2026-11-21)
    """
    bucket = _bucket(platform)
    for key, lustre in platform.storage.lustre_by_key.items():
        for index, location in enumerate(lustre.import_from):
            name, _, prefix = location.removeprefix("s3://").partition("/")
            if bucket.fullmatch(name) and (mirrored := _overlapped(prefix, lustre)):
                reason = f"the file system mirrors the prefix {mirrored} of this bucket, and FSx links an object once"
                fix = f"read it below /fsx/{mirrored}, or write `mirror: false`"
                yield ("storage", key, "import_from", index), reason, fix


def _bucket(platform: Platform) -> re.Pattern[str]:
    """Return the name of the data bucket as a pattern. The account is not known."""
    name = bucket_identity(platform, DATA, _ACCOUNT).name
    return re.compile(re.escape(name).replace(_ACCOUNT, r"\d{12}"))


def _overlapped(prefix: str, lustre: Lustre) -> str | None:
    """Return the mirrored prefix that a prefix contains or is in, or None."""
    ours = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    return next((name for name in lustre.mirrored if f"{name}/".startswith(ours) or ours.startswith(f"{name}/")), None)


LUSTRE: KeyPath = ("storage", "lustre")
FORMER: KeyPath = ("storage", "former_lustre")
# The section of the page that says how.
WAY = "docs/storage.md, Moving to another file system, says"


@rule
def file_systems_keep_what_they_were_created_with(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No change replaces a deployed file system. FSx would create an empty one in its place."""
    deployed = _deployed(platform)
    for name, lustre in platform.storage.lustre_by_key.items():
        asked = locked_lustre(lustre)
        if asked and asked.generation in deployed:
            yield from _changed(("storage", name), deployed[asked.generation], asked, f"create another one as {WAY}")
    home = locked_home(platform)
    if platform.lock.home and home:
        yield from _changed(("storage", "home"), platform.lock.home, home, "move as docs/storage.md says")


@rule
def the_file_system_in_use_stays(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A deploy that deleted the file system of jobs would leave nothing to go back to."""
    used = platform.lock.lustre
    kept = {each.generation for each in platform.storage.lustre_by_key.values() if not each.existing}
    if used and used.generation not in kept:
        reason = f"jobs use the file system of generation {used.generation}, and the file has it no more"
        remedy = f"write its section as `storage.former_lustre`, as {WAY}"
        yield (*LUSTRE, "generation"), reason, remedy


@rule
def another_file_system_has_another_generation(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A generation is one file system for good, so that no edit takes one for another."""
    lustre, former, deployed = platform.storage.lustre, platform.storage.former_lustre, _deployed(platform)
    if lustre is None:
        return
    if former and former.generation == lustre.generation:
        reason = f"storage.lustre has generation {lustre.generation} as well"
        yield (*FORMER, "generation"), reason, f"write `generation: {lustre.generation + 1}` below `storage.lustre`"
    newest = max(deployed, default=lustre.generation)
    if lustre.generation < newest and lustre.generation not in deployed:
        reason = f"the platform had a file system of generation {newest} already"
        yield (*LUSTRE, "generation"), reason, f"write {newest + 1} for another one, or {newest}"


@rule
def a_former_file_system_is_deployed(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No edit creates a file system that costs thousands a month and that no job uses."""
    former, deployed = platform.storage.former_lustre, _deployed(platform)
    if former is None:
        return
    if former.existing:
        reason = "a file system of yours stays, whether or not the platform file has it"
        yield (*FORMER, "existing"), reason, "remove the section `former_lustre`"
    elif former.generation not in deployed:
        reason = f"no file system of generation {former.generation} is deployed, by platform.lock.yaml"
        yield (*FORMER, "generation"), reason, "remove the section, or restore the lock of the last deploy from Git"


def _deployed(platform: Platform) -> Mapping[int, LockedLustre]:
    """Return the deployed Lustre file systems by generation."""
    lock = platform.lock
    return {each.generation: each for each in (lock.lustre, lock.former_lustre) if each}


def _changed(
    section: KeyPath, deployed: LockedLustre | LockedHome, asked: LockedLustre | LockedHome, other: str
) -> list[Breach]:
    found = []
    for key, before in deployed:
        if getattr(asked, key) != before:
            was = f"`{key}: {before if isinstance(before, str) else json.dumps(before)}`"
            reason = (
                f"the file system was created with {was}, which FSx cannot change; a deploy would put an empty "
                "file system in its place"
            )
            found.append(((*section, key), reason, f"write {was}, or {other}"))
    return found
