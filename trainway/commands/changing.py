"""`trainway lock`, `upgrade`, and `diff`: what changes a platform that is deployed, and what a deploy would do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainway.commands.images import images_that_are_gone
from trainway.commands.platform_file import DEFAULT_PLATFORM, PlatformArgument
from trainway.commands.printing import AsJson, show
from trainway.commands.progress import working
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.spec.kubernetes.kubernetes_steps import UpgradePlan
    from trainway.spec.lock import Lock
    from trainway.spec.platform import Platform

# The exit status of `trainway diff` where a deploy would lose nodes or data that nobody named.
REFUSED = 3


def lock(
    file: PlatformArgument = DEFAULT_PLATFORM,
    deployed: Annotated[
        bool,
        typer.Option(
            "--deployed",
            help="Free the ranges of the subnets that the deploy deleted. Run it after a deploy that succeeded. "
            "Default: record what the next deploy creates and deletes. Run it before a deploy.",
        ),
    ] = False,
    from_deployed: Annotated[
        bool,
        typer.Option(
            "--from-deployed",
            help="Write a lost or broken lock again, as the last deploy recorded it in AWS. AWS is only read.",
        ),
    ] = False,
) -> None:
    """Write the lock of a platform, which keeps subnets where they are when the platform file changes."""
    if from_deployed:
        if deployed:
            why = "--from-deployed writes the lock of the last deploy, which has no subnets that leave"
            raise usage_error("--deployed cannot be used", why=why, fix="leave it out")
        _write_lost_lock(file)
        return
    from trainway.spec.deployment.next_lock import deployed_lock, next_lock
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.loader import load_platform
    from trainway.spec.lock import lock_file, lock_text

    platform, catalogue = load_platform(file), load_catalogue()
    after = deployed_lock(platform, catalogue) if deployed else next_lock(platform, catalogue)
    path = lock_file(file)
    if after == platform.lock and path.exists():
        print(f"{path}: nothing changes.")
        return
    path.write_text(lock_text(after), encoding="utf-8")
    before = platform.lock.subnets
    for name in sorted(before.keys() | after.subnets.keys()):
        if name not in before:
            print(f"{name}: {after.subnets[name].cidr} in {after.subnets[name].zone}")
        elif name not in after.subnets:
            print(f"{name}: {before[name].cidr} is free")
        elif name in after.leaving and name not in platform.lock.leaving:
            print(f"{name}: {before[name].cidr} leaves with the next deploy")
    print(f"{path}: written. Commit it together with {file.name}.")


def _write_lost_lock(file: Path) -> None:
    """Write the lock of the last deploy beside a platform file, whatever is there."""
    from trainway.diff.records import lost_lock
    from trainway.spec.document import read_document
    from trainway.spec.loader import validate
    from trainway.spec.lock import lock_file, lock_text
    from trainway.spec.platform import Platform
    from trainway.spec.problems import SpecError

    # Without its lock, which may be the file that is wrong.
    platform, problems = validate(read_document(file), Platform)
    if platform is None:
        raise SpecError(problems)
    found = lost_lock(platform.name, platform.region)
    path, text = lock_file(file), lock_text(found)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        print(f"{path}: nothing changes.")
        return
    path.write_text(text, encoding="utf-8")
    print(f"{path}: written with {len(found.subnets)} subnets. Commit it together with {file.name}.")


def upgrade(
    file: PlatformArgument = DEFAULT_PLATFORM,
    check_only: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Print what is newer, until when versions have support, and the steps to the next Kubernetes version. "
            "Change nothing.",
        ),
    ] = False,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Change the AMI release of this node group only. Repeat the option for several. Default: every group.",
        ),
    ] = None,
    addons: Annotated[bool, typer.Option("--addons", help="Change the versions of the add-ons only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print JSON instead of text.")] = False,
) -> None:
    """Write the newest AMI releases and add-on versions into the lock. The next deploy takes them; AWS is only read."""
    from trainway.kubernetes_upgrade import published, upgrade_json, upgrade_text
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.kubernetes.kubernetes_steps import pinned, upgrade_plan
    from trainway.spec.kubernetes.node_tags import with_tags_of_the_file
    from trainway.spec.loader import load_platform
    from trainway.spec.lock import lock_file, lock_text

    platform, catalogue = load_platform(file), load_catalogue()
    if not platform.orchestrator.is_kubernetes:
        why = f"{platform.orchestrator.value} has no Kubernetes"
        fix = "change the image of HyperPod's nodes by `hyperpod.patching`"
        raise usage_error(f"{file} cannot be upgraded", why=why, fix=fix)
    plan = upgrade_plan(platform, catalogue, published(platform, catalogue), datetime.now(UTC))
    if check_only:
        print(json.dumps(upgrade_json(plan), indent=2) if as_json else upgrade_text(plan))
        return
    _check_groups(file, plan, group or [])
    chosen = frozenset(group or ([] if addons else (pin.name for pin in plan.nodes)))
    after = pinned(platform.lock, plan, groups=chosen, addons=addons or not group)
    after = with_tags_of_the_file(platform, after, chosen - plan.held.keys())
    for name in sorted(chosen & plan.held.keys()):
        print(f"{name} keeps its release: {plan.held[name]}")
    if after == platform.lock:
        print(f"{lock_file(file)}: nothing changes.")
        return
    lock_file(file).write_text(lock_text(after), encoding="utf-8")
    _print_changes(file, platform, after)
    print(f"{lock_file(file)}: written. Commit it, and deploy. The deploy replaces the nodes of each group named here.")


def _check_groups(file: Path, plan: UpgradePlan, groups: Sequence[str]) -> None:
    """Raise UsageError for a node group whose AMI release cannot change: an unknown one, or one in a running block."""
    what, names = f"{file} cannot be upgraded", [pin.name for pin in plan.nodes]
    if unknown := [name for name in groups if name not in names]:
        why = f"the platform has no node group {unknown[0]} with an AMI of EKS's own"
        raise usage_error(what, why=why, fix=f"its groups are {', '.join(names)}")
    if refused := [name for name in groups if name in plan.held]:
        raise usage_error(what, why=f"{refused[0]}: {plan.held[refused[0]]}", fix="upgrade it after the block")


def _print_changes(file: Path, platform: Platform, after: Lock) -> None:
    """Print the versions, releases, and tags that differ between the platform's lock and the one after it."""
    from trainway.spec.kubernetes.node_tags import node_tags

    for before, now in (
        (platform.lock.addon_versions, after.addon_versions),
        (platform.lock.ami_releases, after.ami_releases),
    ):
        for name in sorted(name for name in now if now[name] != before.get(name)):
            print(f"{name}: {before.get(name, 'not pinned')} → {now[name]}")
    for name in sorted(name for name, tags in after.node_tags.items() if tags != node_tags(platform, name)):
        print(f"{name}: its nodes get the tags of {file}")


def diff(
    file: PlatformArgument = DEFAULT_PLATFORM,
    allow_replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Allow the deploy to replace or delete NAME, for example `storage.lustre` or a node group. Repeat the "
            "option for each name. Default: refuse whatever has data or running nodes.",
        ),
    ] = None,
    as_json: AsJson = False,
    assembly: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the synthesized templates in DIR, for `cdk deploy --app DIR --import-existing-resources`. "
            "Default: delete them.",
        ),
    ] = None,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Show what a destroy would delete and keep instead.")
    ] = False,
    stack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --destroy, the stack NAME and those that depend on it. Repeat the option for each stack. "
            "Default: all stacks of the platform.",
        ),
    ] = None,
) -> None:
    """Show what a deploy would create, change, replace, and delete. The exit status is 3 if it refuses something."""
    from trainway.diff.destroy import look_at_destroy
    from trainway.diff.look import look
    from trainway.diff.report import text_of
    from trainway.parts.extras import require_extras

    require_extras("trainway diff", "platform")
    with working("synthesizing the stacks, and comparing them with AWS"):
        if destroy:
            report = look_at_destroy(file, stacks=stack or ())
        else:
            report = look(file, allowed=allow_replace or (), assembly=assembly)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        show(text_of(report))
    for gone in [] if destroy else images_that_are_gone(file):
        print(f"{gone} is gone from ECR: `make deploy` and `trainway image rebuild` build it again", file=sys.stderr)
    if report.refused:
        raise typer.Exit(REFUSED)
