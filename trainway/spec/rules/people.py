"""Somebody may use the cluster that the file describes, from where the file says."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.personas import personas
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.fields import PRINT_YOUR_ROLE


@rule
def somebody_is_let_in(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A Kubernetes platform names somebody who may use it: an administrator, a viewer, or a member of a team.

    Access entries are the only way in. EKS could let in whoever creates the cluster, but that is CloudFormation's own
    role, which no person can assume, and the setting can never be changed (docs/people.md).
    """
    if platform.orchestrator.is_kubernetes and not any(personas(platform)):
        reason = (
            "nobody could use the cluster: the file names no admins, no viewers, and no members of a team, and a "
            "deploy lets nobody else in, not even the person who runs it"
        )
        remedy = (
            'name your IAM role, for example `kubernetes: {admins: ["arn:aws:iam::111122223333:role/Admin"]}`; '
            f"`{PRINT_YOUR_ROLE}` prints the ARN of yours"
        )
        yield ("kubernetes", "admins"), reason, remedy


@rule
def the_endpoint_of_a_closed_network_is_private(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A closed network has no public endpoint: nothing on the internet reaches it."""
    if platform.kubernetes and platform.kubernetes.endpoint and platform.network.is_closed:
        reason = "the network is closed: nothing on the internet reaches anything of the platform"
        yield ("kubernetes", "endpoint"), reason, "write `endpoint: private`, or leave it out"
