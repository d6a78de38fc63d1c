"""Ask AWS which versions of Kubernetes, EKS's AMIs, and add-ons there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Any

from trainway.launch.platform.hand_off import CREDENTIALS
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.kubernetes.ami_releases import groups_with_releases, parameter
from trainway.spec.kubernetes.kubernetes_steps import (
    ADDONS,
    Pin,
    PublishedVersions,
    SupportDates,
    UpgradePlan,
    deployed_version,
)
from trainway.spec.platform import Platform

PERMISSIONS = "eks:DescribeClusterVersions, eks:DescribeAddonVersions, and ssm:GetParameters"
# Of one call of ssm:GetParameters.
NAMES_AT_ONCE = 10


def published(platform: Platform, catalogue: Catalogue) -> PublishedVersions:
    """Ask AWS what it publishes for a platform in its Region. Raises UsageError if AWS cannot be asked."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    what = f"what AWS publishes in {platform.region} cannot be read"
    version = deployed_version(platform)
    try:
        eks = boto3.client("eks", region_name=platform.region)
        versions = _versions(eks)
        addons = _addons(eks, version)
        names = {name: parameter(version, instance) for name, instance in groups_with_releases(platform, catalogue)}
        values = _parameters(boto3.client("ssm", region_name=platform.region), sorted(set(names.values())))
    except ClientError as error:
        raise usage_error(what, why=error.response["Error"]["Message"], fix=f"you need {PERMISSIONS}") from None
    except BotoCoreError as error:
        raise usage_error(what, why=str(error), fix=CREDENTIALS) from None
    releases = {name: values[each] for name, each in names.items() if each in values}
    return PublishedVersions(versions=versions, releases=releases, addons=addons)


def _versions(eks: Any) -> dict[str, SupportDates]:
    def day(at: datetime | None) -> date | None:
        return at.astimezone(UTC).date() if at else None

    pages = eks.get_paginator("describe_cluster_versions").paginate()
    return {
        each["clusterVersion"]: SupportDates(
            day(each.get("endOfStandardSupportDate")), day(each.get("endOfExtendedSupportDate"))
        )
        for page in pages
        for each in page["clusterVersions"]
        if each.get("versionStatus") != "UNSUPPORTED"
    }


def _addons(eks: Any, version: str) -> dict[str, str]:
    """Return the default version of each add-on for a Kubernetes version."""
    pages = eks.get_paginator("describe_addon_versions").paginate(kubernetesVersion=version)
    return {
        addon["addonName"]: offered["addonVersion"]
        for page in pages
        for addon in page["addons"]
        if addon["addonName"] in ADDONS
        for offered in addon["addonVersions"]
        for compatible in offered["compatibilities"]
        if compatible.get("clusterVersion") == version and compatible.get("defaultVersion")
    }


def _parameters(ssm: Any, names: Sequence[str]) -> dict[str, str]:
    found = {}
    for start in range(0, len(names), NAMES_AT_ONCE):
        answer = ssm.get_parameters(Names=list(names[start : start + NAMES_AT_ONCE]))
        found.update({each["Name"]: each["Value"] for each in answer["Parameters"]})
    return found


def upgrade_json(plan: UpgradePlan) -> dict[str, Any]:
    """Return the plan as a document, with dates as texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return value.isoformat() if isinstance(value, date) else value

    document: dict[str, Any] = plain(asdict(plan))
    return document


def upgrade_text(plan: UpgradePlan) -> str:
    """Return the plan for people."""
    lines = [f"Kubernetes {plan.version}{_support(plan.support)}"]
    lines += ["", "Node groups", *_pins(plan.nodes, "the release of their creation")]
    lines += ["", "Add-ons", *_pins(plan.addons, "the version of its creation")]
    if plan.following:
        lines += ["", f"From {plan.version} to {plan.following}, one step at a time:"]
    else:
        lines += ["", f"No minor version after {plan.version} is available to this platform."]
    for number, step in enumerate(plan.steps, 1):
        lines += [f"{number}. {step.title}: {step.do}", f"   {step.happens}"]
    return "\n".join(lines)


def _support(dates: SupportDates | None) -> str:
    if not dates:
        return ", which EKS does not list"
    return f": standard support until {dates.standard_until}, extended support until {dates.extended_until}"


def _pins(pins: Sequence[Pin], without: str) -> list[str]:
    lines = []
    for pin in pins:
        text = f"  {pin.name}: {pin.pinned or without}"
        if pin.newest is None:
            text += ", AWS publishes none"
        elif pin.newest == pin.pinned:
            text += ", the newest"
        else:
            text += f"; AWS publishes {pin.newest}"
        lines.append(f"{text} ({pin.held})" if pin.held else text)
    return lines
