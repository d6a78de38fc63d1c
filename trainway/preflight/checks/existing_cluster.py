"""Check the existing EKS cluster that the platform uses."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.kubernetes.addons import addons_in_cluster
from trainway.spec.problems import KeyPath
from trainway.spec.sections.existing import SELF_MANAGED, ExistingCluster
from trainway.spec.teams.personas import personas

KEY: KeyPath = ("kubernetes", "existing")


@check("eks:DescribeCluster", "eks:DescribeAddon", "eks:DescribeAccessEntry")
def existing_cluster(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The adopted cluster is active and as the file describes it. No access entry of the deploy exists in it."""
    adopted, aws = inquiry.platform.adopted_cluster, inquiry.aws
    if adopted is None:
        return
    answer = aws.ask("eks", "describe_cluster", name=adopted.name, absent=["ResourceNotFoundException"])
    if answer is None:
        yield error(
            f"there is no EKS cluster {adopted.name}",
            why=f"EKS lists none with this name for account {aws.number} in {aws.region}",
            fix="`aws eks list-clusters` lists those that you can use",
            key=(*KEY, "name"),
        )
        return
    found = answer["cluster"]
    if found["status"] not in ("ACTIVE", "UPDATING"):
        yield error(
            f"the EKS cluster {adopted.name} is {found['status']}",
            why="no node can join it, and no chart can be installed",
            fix=f"`aws eks describe-cluster --name {adopted.name}` shows what is wrong",
            key=(*KEY, "name"),
        )
    network = found["resourcesVpcConfig"]
    for name, described, now in (
        ("arn", adopted.arn, found["arn"]),
        ("version", adopted.version, found["version"]),
        ("vpc_id", adopted.vpc_id, network["vpcId"]),
        ("authentication_mode", adopted.authentication_mode, found.get("accessConfig", {}).get("authenticationMode")),
        ("private_access", adopted.private_access, network["endpointPrivateAccess"]),
        ("endpoint", adopted.endpoint, found["endpoint"]),
    ):
        if described != now:
            yield _changed(adopted, f"{name} {now}", f"the file describes {described}", (*KEY, name))
    yield from _addons(inquiry, adopted)
    if not inquiry.is_deployed:
        yield from _entries(inquiry, adopted)


def _changed(adopted: ExistingCluster, what: str, why: str, key: KeyPath) -> AccountFinding:
    fix = f"run `trainway adopt {adopted.name}`, and write the section that it prints"
    return error(f"the EKS cluster {adopted.name} has {what}", why=why, fix=fix, key=key)


def _addons(inquiry: Inquiry, adopted: ExistingCluster) -> Iterator[AccountFinding]:
    """Yield each add-on that differs from its description in the platform file."""
    for name in addons_in_cluster(inquiry.platform):
        described = adopted.addons.get(name)
        if described == SELF_MANAGED or (described is None and inquiry.is_deployed):
            continue
        absent = ["ResourceNotFoundException"]
        answer = inquiry.aws.ask("eks", "describe_addon", clusterName=adopted.name, addonName=name, absent=absent)
        key = (*KEY, "addons", name) if described else (*KEY, "addons")
        if answer is None and described:
            why = "the file says that the cluster has it, so that the deploy does not install it"
            yield _changed(adopted, f"no add-on {name}", why, key)
        elif answer is not None and not described:
            why = "the file does not name it, so that the deploy would install it"
            yield _changed(adopted, f"the add-on {name}", why, key)


def _entries(inquiry: Inquiry, adopted: ExistingCluster) -> Iterator[AccountFinding]:
    """Yield each principal that already has an access entry. EKS allows one access entry for each principal.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html (read 2026-11-26)
    """
    if inquiry.platform.iam.persona_roles:
        return
    for person in dict.fromkeys(person for persona in personas(inquiry.platform) for person in persona.people):
        absent = ["ResourceNotFoundException"]
        asked = {"clusterName": adopted.name, "principalArn": person}
        if inquiry.aws.ask("eks", "describe_access_entry", absent=absent, **asked) is not None:
            yield error(
                f"the EKS cluster {adopted.name} has an access entry of {person}",
                why="the deploy creates one, and a principal has at most one",
                fix="write `iam: {persona_roles: true}`, so that people assume roles of the platform, or name another "
                "principal",
                key=("kubernetes",),
            )
