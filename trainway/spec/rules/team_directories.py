"""Rules of the directories that teams have on the Lustre file system."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.lustre import LUSTRE
from trainway.spec.rules.rule import Breach, rule


@rule
def team_directories_are_for_teams_in_kubernetes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Directories of teams need prefixes of teams, on an orchestrator with Kubernetes."""
    if not platform.storage.team_directories:
        return
    if not platform.orchestrator.is_kubernetes:
        reason = "on a Slurm cluster each node mounts the whole file system for all jobs"
        yield (*LUSTRE, "team_directories"), reason, "remove it, or use an orchestrator with Kubernetes"
    elif not platform.storage.bucket.team_prefixes:
        reason = "all teams share the bucket, which has the code and the results of every run"
        yield (*LUSTRE, "team_directories"), reason, "set storage.bucket.team_prefixes to true, or remove it"


@rule
def team_directories_are_not_linked_to_s3(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No prefix that is linked to S3 is in the directory of a team."""
    lustre, reason = platform.storage.lustre, "jobs mount the directory of their team, and nothing that is linked to S3"
    if lustre is None or not lustre.team_directories:
        return
    share = "set storage.lustre.team_directories to false, so that all teams share the file system"
    if lustre.mirror:
        yield (*LUSTRE, "mirror"), reason, f"remove it, and name data in S3, for example s3:/corpus/TEAM, or {share}"
    if lustre.import_from:
        yield (*LUSTRE, "import_from"), reason, f"remove it, and read the prefix from S3, or {share}"
    if lustre.existing and lustre.existing.associations:
        yield (*LUSTRE, "team_directories"), reason, f"adopt a file system that is not linked, or {share}"


@rule
def root_can_open_team_directories(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Root is not squashed, because root creates the directories of teams."""
    lustre = platform.storage.lustre
    if lustre and lustre.team_directories and lustre.root_squash and lustre.root_squash.uid:
        reason = "nodes create the directories of teams as root"
        remedy = "remove it, because no team can mount the directory of another team, or set team_directories to false"
        yield (*LUSTRE, "root_squash"), reason, remedy
