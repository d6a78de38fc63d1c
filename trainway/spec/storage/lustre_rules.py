"""Rules about the Lustre file system: sizes, features, links, and platforms without one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath

from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.storage.lustre_clients import speaks_efa

LUSTRE: KeyPath = ("storage", "lustre")
# Keys that do not apply to a storage class, and the class that they do apply to.
OF_SSD = dict.fromkeys(("capacity_tib", "throughput_mbps_per_tib", "nearly_full_percent"), "ssd")
OF_INTELLIGENT_TIERING = dict.fromkeys(("throughput_mbps", "read_cache_gib"), "intelligent-tiering")
USELESS = {
    "ssd": OF_INTELLIGENT_TIERING,
    "intelligent-tiering": OF_SSD,
    # https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html and
    # https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html, KmsKeyId (read 2026-11-25)
    "scratch": OF_INTELLIGENT_TIERING
    | dict.fromkeys(("throughput_mbps_per_tib", "metadata_iops", "efa", "key", "backups", "dynamic_volumes"), "ssd"),
}
# Keys that apply to an existing file system.
OF_EXISTING = (
    "existing",
    "generation",
    "mirror",
    "import_from",
    "nearly_full_percent",
    "team_directories",
    "dynamic_volumes",
)


@rule
def lustre_keys_are_of_its_storage_class(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Report keys of another storage class, which would have no effect or which FSx would refuse."""
    lustre = platform.storage.lustre
    if lustre is None or lustre.existing:
        return
    for name, other in USELESS[lustre.storage_class].items():
        if name in lustre.model_fields_set and getattr(lustre, name) not in (None, False):
            reason = f"it is about the storage class {other}, and this file system's is {lustre.storage_class}"
            yield (*LUSTRE, name), reason, f"remove it, or write `storage_class: {other}`"


@rule
def lustre_capacity_is_sold(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check that FSx sells the file system's capacity at that throughput, with or without EFA."""
    lustre, facts = platform.storage.lustre, service_facts().lustre
    if lustre is None or lustre.existing or lustre.is_elastic:
        return
    key: KeyPath = (*LUSTRE, "capacity_tib")
    if lustre.efa and not lustre.is_scratch:
        step = facts.efa_capacity_step_gib[lustre.throughput_mbps_per_tib]
        if lustre.capacity_gib % step:
            speed = f"{lustre.throughput_mbps_per_tib} MB/s per TiB"
            reason = f"with EFA at {speed}, capacity comes in steps of {step / 1000} TiB"
            above = (lustre.capacity_gib // step + 1) * step
            yield key, reason, f"write {above / 1000}, or a higher throughput, whose steps are smaller"
    elif lustre.capacity_gib not in facts.capacity_gib and lustre.capacity_gib % facts.capacity_step_gib:
        above = (lustre.capacity_gib // facts.capacity_step_gib + 1) * facts.capacity_step_gib
        sizes = ", ".join(str(gib / 1000) for gib in facts.capacity_gib)
        yield key, f"FSx sells {sizes} TiB and then steps of {facts.capacity_step_gib / 1000}", f"write {above / 1000}"


@rule
def intelligent_tiering_is_sold(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check that throughput is a multiple of a step, and that the read cache fits the number of steps."""
    lustre, facts = platform.storage.lustre, service_facts().lustre.intelligent_tiering
    if lustre is None or not lustre.is_elastic:
        return
    step, most = facts.throughput_step_mbps, facts.throughput_limit_mbps
    if lustre.throughput_mbps % step or lustre.throughput_mbps > most:
        above = min(most, (lustre.throughput_mbps // step + 1) * step)
        reason = f"with Intelligent-Tiering, throughput comes in steps of {step} MB/s, up to {most}"
        yield (*LUSTRE, "throughput_mbps"), reason, f"write {above}"
    elif lustre.read_cache_gib:
        low, high = (each * (lustre.throughput_mbps // step) for each in facts.read_cache_gib_per_step)
        if not low <= lustre.read_cache_gib <= high:
            reason = f"at {lustre.throughput_mbps} MB/s the read cache is between {low} and {high} GiB"
            yield (*LUSTRE, "read_cache_gib"), reason, "write a size in between, 0 for none, or leave it out"


@rule
def metadata_iops_are_sold(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check the metadata IOPS, of which FSx sells certain values, fewer with Intelligent-Tiering."""
    lustre, facts = platform.storage.lustre, service_facts().lustre
    if lustre is None or lustre.existing or lustre.is_scratch or lustre.metadata_iops is None:
        return
    key: KeyPath = (*LUSTRE, "metadata_iops")
    if lustre.is_elastic:
        sizes = facts.intelligent_tiering.metadata_iops
        if lustre.metadata_iops not in sizes:
            reason = "with Intelligent-Tiering, FSx sells fewer sizes of metadata performance"
            yield key, reason, f"write {' or '.join(map(str, sizes))}"
        return
    step, most = facts.metadata_iops[-1], facts.metadata_iops_limit
    multiple = lustre.metadata_iops % step == 0 and lustre.metadata_iops <= most
    if lustre.metadata_iops not in facts.metadata_iops and not multiple:
        sizes_up_to = ", ".join(map(str, facts.metadata_iops))
        yield (
            key,
            f"FSx sells {sizes_up_to} and multiples of {step} up to {most}",
            "write one of these, or leave it out",
        )


@rule
def root_is_squashed_or_not(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check that the uid and gid of root_squash are both 0, which turns squashing off, or both not 0."""
    lustre = platform.storage.lustre
    if lustre is None or lustre.root_squash is None:
        return
    squash = lustre.root_squash
    if bool(squash.uid) != bool(squash.gid):
        reason = "FSx takes root's user and group away together, or neither"
        yield (*LUSTRE, "root_squash"), reason, "write 0 for both, or for none of them"
    if not squash.uid and squash.but_not:
        reason = "there is nobody to make an exception for, where root stays root"
        yield (*LUSTRE, "root_squash", "but_not"), reason, "remove it, or name whom root becomes"


@rule
def only_linkable_file_systems_are_linked(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check that a linked file system is not Intelligent-Tiering, and has no backups.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/fsx-data-repositories.html (read 2026-11-21)
    """
    lustre = platform.storage.lustre
    if lustre is None or not lustre.is_linked or lustre.existing:
        return
    fix = "write `mirror: false`" + (", and no import_from" if lustre.import_from else "")
    if lustre.is_elastic:
        reason = "FSx links no file system of Intelligent-Tiering to S3"
        yield (*LUSTRE, "storage_class"), reason, f"{fix}; jobs keep checkpoints in the bucket itself"
    if lustre.backups:
        reason = "FSx takes no backups of a file system that is linked to S3, where its contents are anyway"
        yield (*LUSTRE, "backups"), reason, f"leave it out, or {fix}"


@rule
def links_to_s3_are_possible(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check the number of links to S3, and that their prefixes do not overlap.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html (read 2026-11-21)
    """
    lustre, most = platform.storage.lustre, service_facts().lustre.associations
    if lustre is None:
        return
    there = lustre.existing.associations if lustre.existing else {}
    made = [f"/{name}" for name in lustre.mirrored if f"/{name}" not in there]
    key: KeyPath = (*LUSTRE, "import_from")
    if (links := len(made) + len(there) + len(lustre.import_from)) > most:
        mirrored = f"{len(made)} mirror the data bucket"
        reason = f"a file system has at most {most} links to S3, and this one would have {links}, of which {mirrored}"
        yield key, reason, "import a prefix that is further up, or write `mirror: false`"
    for index, location in enumerate(lustre.import_from):
        if other := next((each for each in lustre.import_from[:index] if _overlap(each, location)), None):
            reason = f"{location} and {other} overlap, and FSx links each object once"
            yield (*key, index), reason, "name the prefix that is further up, once"


@rule
def some_node_speaks_efa_with_lustre(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Check that some node can use EFA with Lustre, because EFA increases the capacity steps."""
    lustre = platform.storage.lustre
    if lustre is None or not lustre.efa or lustre.existing or lustre.is_scratch:
        return
    groups = platform.node_groups
    if any(name not in catalogue for group in groups for name in (group.instance_type, *group.or_types)):
        return  # another rule reports it
    able = [group for group in groups if all(speaks_efa(each.name, catalogue) for each in types_of(group, catalogue))]
    if not able:
        reason = "none of the node groups is of types that can reach FSx over EFA: Nitro v4 or later with EFA, but trn2"
        yield (*LUSTRE, "efa"), reason, "leave it out; every node reaches the file system over TCP"
    elif not any(platform.zone_of(group) == platform.storage_zone for group in able):
        reason = f"EFA stays within a zone; the file system is in {platform.storage_zone}, with the first node group"
        yield (*LUSTRE, "efa"), reason, f"put {able[0].name} first, or into that zone"
    elif (nodes := sum(group.largest for group in able)) > (most := service_facts().lustre.efa_connections):
        reason = f"a file system has {most} connections over EFA, and {nodes} nodes could want one or more"
        yield (*LUSTRE, "efa"), reason, "leave it out, or lower max_count"


@rule
def an_existing_file_system_is_left_alone(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Check that an existing file system has no keys of a new one, and that it is in an adopted VPC."""
    lustre = platform.storage.lustre
    if lustre is None or not lustre.existing:
        return
    if platform.network.existing is None:
        reason = "it is in a VPC of yours, and this platform makes one of its own"
        yield (*LUSTRE, "existing"), reason, "adopt that VPC: `trainway adopt vpc-…` prints `network.existing`"
    for name in sorted(lustre.model_fields_set - set(OF_EXISTING)):
        yield (*LUSTRE, name), "a file system that exists is not changed", "remove the key, or `existing`"
    for path in lustre.existing.associations:
        mirrored = next((name for name in lustre.mirrored if _overlap(path, f"/{name}") and path != f"/{name}"), None)
        if mirrored:
            reason = f"it overlaps /{mirrored}, which is to mirror the data bucket, and FSx links no directory twice"
            yield (*LUSTRE, "existing", "associations", path), reason, "write `mirror: false`, or end that link"


# Rules that apply to each file system. The rule on EFA applies only to the file system that jobs use.
OF_EACH = (
    lustre_keys_are_of_its_storage_class,
    lustre_capacity_is_sold,
    intelligent_tiering_is_sold,
    metadata_iops_are_sold,
    root_is_squashed_or_not,
    only_linkable_file_systems_are_linked,
    links_to_s3_are_possible,
)


@rule
def the_former_file_system_is_sold_as_well(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Apply the rules for the file system that jobs use to the former one."""
    former = platform.storage.former_lustre
    if former is None:
        return
    storage = platform.storage.model_copy(update={"lustre": former, "former_lustre": None})
    alone = platform.model_copy(update={"storage": storage})
    for each in OF_EACH:
        for key, reason, fix in each(alone, catalogue):
            if key[: len(LUSTRE)] == LUSTRE:
                yield ("storage", "former_lustre", *key[len(LUSTRE) :]), reason, fix


def _overlap(one: str, other: str) -> bool:
    """Return whether one of two locations contains the other, or both are the same."""
    one, other = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)


# What HyperPod's nodes and jobs keep on the file system.
REQUIRED_BY = {
    Orchestrator.HYPERPOD_EKS: "pods of HyperPod's training operator start again in place and share the files of a run",
    Orchestrator.HYPERPOD_SLURM: "nodes share home directories, the code of jobs, and their output",
}


@rule
def hyperpod_has_a_file_system(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Nodes and jobs of HyperPod share a file system."""
    why = REQUIRED_BY.get(platform.orchestrator)
    if platform.storage.lustre is None and why:
        reason = f"{platform.orchestrator.value} requires a file system: {why}"
        fix = "remove the key, write `lustre: {storage_class: scratch}` for one that costs less, or use the "
        yield LUSTRE, reason, f"{fix}orchestrator eks"


@rule
def an_existing_file_system_is_described_as_it_is(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The DNS name has the ID and the Region, and no linked directory is inside another one."""
    for name, lustre in platform.storage.lustre_by_key.items():
        theirs, key = lustre.existing, ("storage", name, "existing")
        if theirs is None:
            continue
        again = f"run `trainway adopt {theirs.file_system_id}`, and write what it prints"
        wanted = f"{theirs.file_system_id}.fsx.{platform.region}."
        if not theirs.dns_name.startswith(wanted):
            where: KeyPath = (*key, "dns_name")
            yield where, f"that of {theirs.file_system_id} in {platform.region} begins with {wanted}", again
        for one, other in combinations(sorted(theirs.associations), 2):
            if PurePosixPath(other).is_relative_to(one):
                yield (*key, "associations", other), f"it is inside {one}, which is linked, too", again
