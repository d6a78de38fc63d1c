"""The whole diff: ask who calls, synthesize, compare, read the change sets, and refuse what would be lost."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainway.diff import change_sets, records
from trainway.diff.account import AwsAccount
from trainway.diff.answers import with_answers
from trainway.diff.assembly import extended_resources, read_assembly, synthesize
from trainway.diff.blame import Synthesis
from trainway.diff.change_sets import Answered, may_change
from trainway.diff.compare import ResourceDiff, compare
from trainway.diff.consequences import consequences, platforms_beside
from trainway.diff.costs import cost_of
from trainway.diff.deliveries import delivery_of
from trainway.diff.deployed import deployed_templates
from trainway.diff.duration import minutes_of, minutes_of_deploy
from trainway.diff.exports import deployed_first, held_exports
from trainway.diff.live_nodes import with_live_nodes
from trainway.diff.looked import Looked
from trainway.diff.names import logical_name, printed_kind, printed_name
from trainway.diff.new_walls import steps_to_new_walls
from trainway.diff.refusals import invalid_stacks, refusals
from trainway.diff.report import DiffedProperty, DiffedResource, DiffedStack, DiffReport, Refused
from trainway.diff.signing import rule_that_stays
from trainway.diff.tokens import REFERENCE, StackTemplate
from trainway.launch.platform.deployed_version import require_upgradable
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform, require_snapshots
from trainway.spec.platform import Platform

# What CloudFormation answers while another stack does not have yet what this one refers to. The templates tell then.
WAITS_FOR_ANOTHER: Final = ("No export named", "Unable to fetch parameters", "Fn::GetStackOutput", "GetStackOutput")
BOOTSTRAP: Final = "/cdk-bootstrap/"
# A file of the cloud assembly, for scripts/deploy: the names of the stacks to deploy before the others.
DEPLOYED_FIRST: Final = "deploy-first"
LONGEST_VALUE: Final = 60


def look(file: Path, *, allowed: Collection[str] = (), assembly: Path | None = None) -> DiffReport:
    """Return what a deploy of a platform file would do to the account of this shell.

    `allowed` are the names of what may be replaced or deleted. The cloud assembly stays in the directory `assembly` if
    there is one. Raises UsageError, before anything else is done if there are no credentials or if `image.refresh` is a
    day in the future.
    """
    platform = load_platform(file)
    require_snapshots(platform, file, datetime.now(UTC).date())
    account = AwsAccount(platform.region)
    require_upgradable(platform)
    with tempfile.TemporaryDirectory(prefix="trainway-diff-") as temporary:

        def synthesis(trial: Path) -> dict[str, StackTemplate]:
            out = Path(tempfile.mkdtemp(dir=temporary))
            synthesize(trial, out, account=account.number, region=platform.region, validate=False)
            return {name: stack.template for name, stack in read_assembly(out).items()}

        out = assembly or Path(temporary) / "assembly"
        synthesize(file, out, account=account.number, region=platform.region)
        report = look_at(out, platform, file, account, allowed=allowed, synthesis=synthesis)
        report = report.model_copy(update={"steps": steps_to_new_walls(platform, account.client("s3"))})
        (out / DEPLOYED_FIRST).write_text("".join(f"{name}\n" for name in report.first), encoding="utf-8")
        return report


def look_at(
    assembly: Path,
    platform: Platform,
    file: Path,
    account: AwsAccount,
    *,
    allowed: Collection[str] = (),
    synthesis: Synthesis,
) -> DiffReport:
    """Return what a deploy of a platform's cloud assembly would do to an account.

    `file` is the platform file, for the key that a refusal names. `synthesis` returns the templates of another file.
    Raises UsageError if the deployed stacks cannot be read, or a name in `allowed` is that of nothing that is lost.
    """
    stacks = read_assembly(assembly)
    deployed = deployed_templates(account, platform.name, stacks)
    wanted = {name: stack.template for name, stack in stacks.items()}
    compared = compare(deployed, wanted)
    changing = {each.id.stack for each in compared}
    asked = {name: stacks[name] for name in wanted if name in changing or may_change(wanted[name], deployed.get(name))}
    answered = dict.fromkeys(stacks, Answered()) | change_sets.ask(account, asked, deployed)
    diffs = with_live_nodes(with_answers(compared, answered), account, platform.name)
    looked = Looked(deployed, stacks, diffs, answered, extended_resources(assembly))
    refused = [
        *refusals(account, platform, file, looked, allowed, synthesis),
        *invalid_stacks(answered),
        *held_exports(deployed, wanted),
    ]
    report = _report(account, platform, looked, refused, deployed_first(deployed, wanted))
    return report.model_copy(update={"notices": _notices(account, platform, looked, wanted)})


def _notices(
    account: AwsAccount, platform: Platform, looked: Looked, wanted: Mapping[str, StackTemplate]
) -> tuple[str, ...]:
    if not looked.deployed:
        return platforms_beside(account, platform.name)
    recorded = records.file_of_last_deploy(account, platform.name)
    teams = [str(team["name"]) for team in recorded.platform.get("teams", ())] if recorded else []
    return consequences(looked.diffs, platform, wanted, teams)


def _report(
    account: AwsAccount, platform: Platform, looked: Looked, refused: Sequence[Refused], first: tuple[str, ...]
) -> DiffReport:
    deployed = list(looked.deployed.values())
    catalogue = load_catalogue()
    deliveries = {
        name: delivery_of(
            role_of(name, platform),
            [each for each in looked.diffs if each.id.stack == name],
            deployed,
            platform,
            catalogue,
        )
        for name in looked.stacks
    }
    stacks = tuple(
        DiffedStack(
            name=name,
            is_new=name not in looked.deployed,
            resources=tuple(_resource(each, platform, looked) for each in looked.diffs if each.id.stack == name),
            delivery=deliveries[name].words,
            change_set=_told_failure(looked.answered[name].failure),
        )
        for name in looked.stacks
    )
    return DiffReport(
        platform=platform.name,
        region=account.region,
        account=account.number,
        stacks=stacks,
        left_alone=tuple(sorted(set(looked.deployed) - set(looked.stacks))),
        refused=tuple(refused),
        first=first,
        minutes=minutes_of_deploy(
            [(role_of(each.id.stack, platform), each) for each in looked.diffs],
            {step: took for delivery in deliveries.values() for step, took in delivery.minutes.items()},
            platform,
            catalogue,
        ),
    )


def role_of(stack: str, platform: Platform) -> str:
    """Return the name of a stack without that of its platform, for example `control-plane`."""
    return stack.removeprefix(f"{platform.name}-")


def _told_failure(failure: str) -> str:
    if BOOTSTRAP in failure:
        return "the account's Region is not bootstrapped: run `cdk bootstrap`"
    return "" if any(word in failure for word in WAITS_FOR_ANOTHER) else failure


def _resource(each: ResourceDiff, platform: Platform, looked: Looked) -> DiffedResource:
    by_extension = looked.extended.get(each.id.stack, {}).get(each.id.logical_id, "")
    return report_resource(each, platform, looked.diffs).model_copy(update={"by_extension": by_extension})


def report_resource(each: ResourceDiff, platform: Platform, diffs: Sequence[ResourceDiff] = ()) -> DiffedResource:
    """Return what a report says of one resource. `diffs` are those of the whole deploy."""
    return DiffedResource(
        name=printed_name(each, platform.name),
        kind=printed_kind(each.kind),
        type=each.kind,
        logical_id=each.id.logical_id,
        action=each.action.value,
        properties=tuple(
            DiffedProperty(
                path=edit.dotted,
                verdict=edit.verdict.value,
                before=before,
                after=after,
                follows=logical_name(edit.follows.logical_id) if edit.follows else "",
            )
            for edit in each.edits
            for before, after in [_values(edit.before, edit.after)]
        ),
        cost=rule_that_stays(each, diffs) or cost_of(each, platform.region),
        minutes=minutes_of(role_of(each.id.stack, platform), each),
    )


def _values(before: Any, after: Any) -> tuple[str, str]:
    """Return both values as JSON of at most 60 characters, with the names of resources for references.

    Longer values begin shortly before they differ.
    """
    texts = ["" if value is None else json.dumps(_named(value), ensure_ascii=False) for value in (before, after)]
    if all(len(text) > LONGEST_VALUE for text in texts):
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
        start = max(0, sum(1 for _ in same) - LONGEST_VALUE // 3)
        texts = [f"{'…' if start else ''}{text[start:]}" for text in texts]
    shortened = [text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…" for text in texts]
    return shortened[0], shortened[1]


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(item) for item in value]
    if isinstance(value, str) and value.startswith(("{", "[")):
        # A document in a text, for example the life cycle of a repository's images.
        with suppress(json.JSONDecodeError):
            return json.loads(value)
    if not isinstance(value, dict):
        return value
    if REFERENCE in value:
        _, logical_id, attribute = value[REFERENCE]
        return f"{logical_name(logical_id)}{'.' if attribute else ''}{attribute}"
    return {key: _named(item) for key, item in value.items()}
