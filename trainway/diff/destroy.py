"""Read from the deployed templates which resources `make destroy` deletes and keeps, without a synthesis."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from trainway.diff.account import AwsAccount
from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.deployed import deployed_templates
from trainway.diff.instance_groups import with_instance_groups
from trainway.diff.look import report_resource
from trainway.diff.report import DiffedStack, DiffReport
from trainway.diff.tokens import Id, references, resolved_templates
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.loader import load_platform


def look_at_destroy(file: Path, *, stacks: Collection[str] = ()) -> DiffReport:
    """Return the resources that a destroy deletes and keeps, in all stacks or in the named ones and their dependents.

    Raises UsageError if the platform is protected, there are no credentials, or a named stack is not deployed.
    """
    platform = load_platform(file)
    if platform.deletion_protection:
        raise _protected(platform.name, "the platform file says `deletion_protection: true`")
    account = AwsAccount(platform.region)
    deployed = deployed_templates(account, platform.name, stacks)
    if unknown := sorted(set(stacks) - set(deployed)):
        why = f"the deployed stacks are {', '.join(deployed) or 'none'}"
        raise usage_error(f"the stack {unknown[0]} cannot be destroyed", why=why, fix="name one of these")
    resources = with_instance_groups(resolved_templates(deployed))
    if any(each["Properties"].get("DeletionProtection") for each in resources.values()):
        raise _protected(platform.name, "it is deployed with `deletion_protection: true`")
    if cluster := _still_in_a_cluster(resources.values()):
        # No stack can uninstall them, because a destroy runs no build.
        fix = "write `kubernetes: {existing: {withdraw: true}}`, run `make deploy`, and then `make destroy`"
        why = f"its charts and Kubernetes objects are in {cluster}, which stays"
        raise usage_error(f"{platform.name} cannot be destroyed", why=why, fix=fix)
    doomed = _with_dependents(stacks, resources) if stacks else set(deployed)
    told = tuple(
        DiffedStack(
            name=name,
            is_new=False,
            resources=tuple(
                report_resource(_deleted(id, each), platform) for id, each in resources.items() if id.stack == name
            ),
        )
        for name in deployed
        if name in doomed
    )
    return DiffReport(platform=platform.name, region=account.region, account=account.number, stacks=told)


def _protected(platform: str, why: str) -> UsageError:
    fix = "write `deletion_protection: false`, run `make deploy`, and then `make destroy`"
    return usage_error(f"{platform} cannot be destroyed", why=why, fix=fix)


def _still_in_a_cluster(resources: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the adopted cluster that the platform has not left yet, by the environment of its delivery, or None."""
    for each in resources:
        if each["Type"] == "AWS::CodeBuild::Project":
            variables = {
                v["Name"]: v["Value"] for v in each["Properties"]["Environment"].get("EnvironmentVariables", [])
            }
            if "ADOPTED_CLUSTER" in variables and "WITHDRAW" not in variables:
                return str(variables["CLUSTER_NAME"])
    return None


def _deleted(id: Id, resource: Mapping[str, Any]) -> ResourceDiff:
    kept = str(resource.get("DeletionPolicy", "Delete")).startswith("Retain")
    return ResourceDiff(id, resource["Type"], Action.DELETED, before=resource, kept=kept)


def _with_dependents(stacks: Collection[str], resources: Mapping[Id, Mapping[str, Any]]) -> set[str]:
    """Return the stacks and those that refer to them, which the CDK's command line destroys, too."""
    doomed = set(stacks)
    while True:
        more = {
            id.stack
            for id, each in resources.items()
            if any(other.stack in doomed for other, _ in references(each["Properties"]))
        }
        if more <= doomed:
            return doomed
        doomed |= more
