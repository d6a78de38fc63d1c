"""The whole diff: ask who calls, synthesize, compare, read the change sets, and refuse what would be lost."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainway.diff import blame, change_sets
from trainway.diff.account import AwsAccount
from trainway.diff.answers import with_answers
from trainway.diff.assembly import SynthesizedStack, extended_resources, read_assembly, synthesize
from trainway.diff.change_sets import Answered
from trainway.diff.compare import PropertyEdit, ResourceDiff, compare
from trainway.diff.costs import cost_of, minutes_of, total_minutes
from trainway.diff.create_only import Verdict
from trainway.diff.deployed import deployed_templates
from trainway.diff.edits import Edit
from trainway.diff.instance_groups import with_instance_groups
from trainway.diff.live_nodes import with_live_nodes
from trainway.diff.names import logical_name, printed_kind, printed_name
from trainway.diff.protected import instead_of, is_protected, users_of
from trainway.diff.report import DiffedProperty, DiffedResource, DiffedStack, DiffReport, Refused
from trainway.diff.tokens import REFERENCE, Id, StackTemplate, resolved_templates
from trainway.launch.deployed_version import require_upgradable
from trainway.spec.document import read_document
from trainway.spec.errors import usage_error
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.problems import show_key

# What CloudFormation answers while another stack does not have yet what this one refers to. The templates tell then.
WAITS_FOR_ANOTHER: Final = ("No export named", "Unable to fetch parameters", "Fn::GetStackOutput", "GetStackOutput")
BOOTSTRAP: Final = "/cdk-bootstrap/"
INVALID: Final = ("AWS::EarlyValidation", "Properties validation failed")
LONGEST_VALUE: Final = 60


@dataclass(frozen=True)
class Looked:
    """What was read for a diff: the deployed templates, the synthesized stacks, and what becomes of each resource.

    `extended` says by stack and logical ID what the platform's extension does to a resource.
    """

    deployed: Mapping[str, StackTemplate]
    stacks: Mapping[str, SynthesizedStack]
    diffs: Sequence[ResourceDiff]
    answered: Mapping[str, Answered]
    extended: Mapping[str, Mapping[str, str]]


def look(file: Path, *, allowed: Collection[str] = (), assembly: Path | None = None) -> DiffReport:
    """Return what a deploy of a platform file would do to the account of this shell.

    `allowed` are the names of what may be replaced or deleted. The cloud assembly stays in the directory `assembly` if
    there is one. Raises UsageError, before anything else is done if there are no credentials.
    """
    platform = load_platform(file)
    account = AwsAccount(platform.region)
    require_upgradable(platform)
    with tempfile.TemporaryDirectory(prefix="trainway-diff-") as temporary:
        out = assembly or Path(temporary) / "assembly"
        synthesize(file, out, account=account.number, region=platform.region)
        stacks = read_assembly(out)
        deployed = deployed_templates(account, platform.name, stacks)
        answered = change_sets.ask(account, stacks, deployed)
        wanted = {name: stack.template for name, stack in stacks.items()}
        diffs = with_live_nodes(with_answers(compare(deployed, wanted), answered), account, platform.name)
        looked = Looked(deployed, stacks, diffs, answered, extended_resources(out))
        refused = [*_refusals(account, platform, file, looked, allowed, Path(temporary)), *_invalid(looked)]
    return _report(account, platform, looked, refused)


def _refusals(
    account: AwsAccount, platform: Platform, file: Path, looked: Looked, allowed: Collection[str], scratch: Path
) -> list[Refused]:
    by_id = {each.id: each for each in looked.diffs}
    users = users_of(with_instance_groups(resolved_templates(looked.deployed)))
    lost = [each for each in looked.diffs if is_protected(each, users.get(each.id, ()), by_id)]
    names = {printed_name(each, platform.name) for each in lost}
    if unknown := sorted(set(allowed) - names):
        what = f"nothing of the name is replaced or deleted; what is: {', '.join(sorted(names)) or 'nothing'}"
        raise usage_error(f"--allow-replace {unknown[0]} cannot be used", why=what, fix="leave the option out")
    lost = [each for each in lost if printed_name(each, platform.name) not in allowed]
    recorded = blame.recorded_file(account, platform.name) if lost else None
    causes: Mapping[Id, Edit] = {}
    if recorded:

        def synthesis(trial: Path) -> dict[str, StackTemplate]:
            out = Path(tempfile.mkdtemp(dir=scratch))
            synthesize(trial, out, account=account.number, region=platform.region, validate=False)
            return {name: stack.template for name, stack in read_assembly(out).items()}

        causes = blame.causes_of([each.id for each in lost], recorded, platform, file, looked.deployed, synthesis)
    return [_refusal(each, platform, file, causes.get(each.id)) for each in lost]


def _refusal(each: ResourceDiff, platform: Platform, file: Path, cause: Edit | None) -> Refused:
    replacing = [edit for edit in each.edits if edit.verdict is not Verdict.UPDATE]
    why = f"nothing in the file asks for it any more; {cost_of(each) or 'nodes and jobs use it'}"
    if replacing:
        edit = replacing[0]
        doubt = {Verdict.REPLACE: "cannot change", Verdict.CONDITIONAL: "cannot always change"}
        changes = doubt.get(edit.verdict, "may be one that cannot change")
        why = f"{_path(edit)} {changes} in a {printed_kind(each.kind)} that exists; {cost_of(each) or 'jobs use it'}"
    document = read_document(file)
    return Refused(
        name=printed_name(each, platform.name),
        kind=printed_kind(each.kind),
        stack=each.id.stack,
        what=f"would be {each.action.value}",
        key=show_key(cause.key) if cause else "",
        file=str(file) if cause else "",
        line=document.nearest(cause.key)[0] if cause else None,
        edit=cause.what if cause else "",
        why=why,
        fix=instead_of(each),
    )


def _invalid(looked: Looked) -> list[Refused]:
    """Return the stacks that CloudFormation would not deploy at all."""
    return [
        Refused(
            name=name,
            kind="stack",
            stack=name,
            what="cannot be deployed",
            why=answer.failure,
            fix="the template is wrong; if no `extend` changes it, that is an error of Trainway",
            can_be_allowed=False,
        )
        for name, answer in looked.answered.items()
        if any(word in answer.failure for word in INVALID)
    ]


def _report(account: AwsAccount, platform: Platform, looked: Looked, refused: Sequence[Refused]) -> DiffReport:
    stacks = tuple(
        DiffedStack(
            name=name,
            is_new=name not in looked.deployed,
            resources=tuple(_resource(each, platform, looked) for each in looked.diffs if each.id.stack == name),
            change_set=_told_failure(looked.answered[name].failure),
        )
        for name in looked.stacks
    )
    longest = {stack.name: max((each.minutes for each in stack.resources), default=0) for stack in stacks}
    return DiffReport(
        platform=platform.name,
        region=account.region,
        account=account.number,
        stacks=stacks,
        left_alone=tuple(sorted(set(looked.deployed) - set(looked.stacks))),
        refused=tuple(refused),
        minutes=total_minutes({name: stack.after for name, stack in looked.stacks.items()}, longest),
    )


def _told_failure(failure: str) -> str:
    if BOOTSTRAP in failure:
        return "the account's Region is not bootstrapped: run `cdk bootstrap`"
    return "" if any(word in failure for word in WAITS_FOR_ANOTHER) else failure


def _resource(each: ResourceDiff, platform: Platform, looked: Looked) -> DiffedResource:
    by_extension = looked.extended.get(each.id.stack, {}).get(each.id.logical_id, "")
    return report_resource(each, platform.name).model_copy(update={"by_extension": by_extension})


def report_resource(each: ResourceDiff, platform: str) -> DiffedResource:
    """Return what a report says of one resource."""
    return DiffedResource(
        name=printed_name(each, platform),
        kind=printed_kind(each.kind),
        type=each.kind,
        logical_id=each.id.logical_id,
        action=each.action.value,
        properties=tuple(
            DiffedProperty(
                path=_path(edit),
                verdict=edit.verdict.value,
                before=_value(edit.before),
                after=_value(edit.after),
                follows=logical_name(edit.follows.logical_id) if edit.follows else "",
            )
            for edit in each.edits
        ),
        cost=cost_of(each),
        minutes=minutes_of(each, each.id.stack.removeprefix(f"{platform}-")),
    )


def _path(edit: PropertyEdit) -> str:
    return ".".join(edit.path)


def _value(value: Any) -> str:
    """Return a value as JSON of at most 60 characters, with the names of resources for references."""
    if value is None:
        return ""
    text = json.dumps(_named(value), ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(item) for item in value]
    if not isinstance(value, dict):
        return value
    if REFERENCE in value:
        _, logical_id, attribute = value[REFERENCE]
        return f"{logical_name(logical_id)}{'.' if attribute else ''}{attribute}"
    return {key: _named(item) for key, item in value.items()}
