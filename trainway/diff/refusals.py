"""Find the reasons to refuse a deploy: losses, and templates that CloudFormation does not accept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from trainway.diff import blame, records
from trainway.diff.account import AwsAccount
from trainway.diff.blame import LocatedEdit, Synthesis
from trainway.diff.change_sets import Answered
from trainway.diff.compare import ResourceDiff
from trainway.diff.costs import cost_of, nodes_now, nodes_stopped
from trainway.diff.create_only import Verdict
from trainway.diff.instance_groups import with_instance_groups
from trainway.diff.looked import Looked
from trainway.diff.names import printed_kind, printed_name
from trainway.diff.protected import instead_of, is_protected, users_of
from trainway.diff.report import Refused
from trainway.diff.tokens import Id, resolved_templates
from trainway.spec.document import read_document
from trainway.spec.errors import usage_error
from trainway.spec.platform import Platform
from trainway.spec.problems import show_key

INVALID: Final = ("AWS::EarlyValidation", "Properties validation failed")


def refusals(
    account: AwsAccount,
    platform: Platform,
    file: Path,
    looked: Looked,
    allowed: Collection[str],
    synthesis: Synthesis,
) -> list[Refused]:
    """Return the losses of a deploy that `allowed` does not name, each with the key of the file that causes it.

    Raises UsageError if `allowed` names a resource that would not be lost.
    """
    by_id = {each.id: each for each in looked.diffs}
    users = users_of(with_instance_groups(resolved_templates(looked.deployed)))
    lost = [each for each in looked.diffs if is_protected(each, users.get(each.id, ()), by_id)]
    names = {printed_name(each, platform.name) for each in lost}
    if unknown := sorted(set(allowed) - names):
        what = f"nothing of the name is refused; what is: {', '.join(sorted(names)) or 'nothing'}"
        raise usage_error(f"--allow-replace {unknown[0]} cannot be used", why=what, fix="leave the option out")
    lost = [each for each in lost if printed_name(each, platform.name) not in allowed]
    causes: Mapping[Id, LocatedEdit] = {}
    if lost:
        recorded = records.file_of_last_deploy(account, platform.name)
        lock = records.lock_of_last_deploy(account, platform.name)
        ids = [each.id for each in lost]
        causes = blame.causes_of(ids, recorded, lock, platform, file, looked.deployed, synthesis)
    return [_refusal(each, platform, causes.get(each.id)) for each in lost]


def invalid_stacks(answered: Mapping[str, Answered]) -> list[Refused]:
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
        for name, answer in answered.items()
        if any(word in answer.failure for word in INVALID)
    ]


def _refusal(each: ResourceDiff, platform: Platform, cause: LocatedEdit | None) -> Refused:
    what = f"would be {each.action.value}"
    replacing = [edit for edit in each.edits if edit.verdict is not Verdict.UPDATE]
    cost = cost_of(each, platform.region)
    why = f"nothing in the file asks for it any more; {cost or 'nodes and jobs use it'}"
    if replacing:
        edit = replacing[0]
        doubt = {Verdict.REPLACE: "cannot change", Verdict.CONDITIONAL: "cannot always change"}
        changes = doubt.get(edit.verdict, "may be one that cannot change")
        why = f"{edit.dotted} {changes} in a {printed_kind(each.kind)} that exists; {cost or 'jobs use it'}"
    if not each.is_lost:
        what = f"would lose {nodes_stopped(each)} of its {nodes_now(each)} running nodes"
        why = f"an update of its size sets the number of nodes to that of the file; {cost}"
    return Refused(
        name=printed_name(each, platform.name),
        kind=printed_kind(each.kind),
        stack=each.id.stack,
        what=what,
        key=_key(cause) if cause else "",
        file=str(cause.file) if cause else "",
        line=read_document(cause.file).nearest(cause.edit.key)[0] if cause and cause.file.exists() else None,
        edit=cause.edit.what if cause else "",
        why=why,
        fix=instead_of(each),
    )


def _key(cause: LocatedEdit) -> str:
    """Return the key of an edit; of one that is about a whole file, the name of the file."""
    return show_key(cause.edit.key) if cause.edit.key else cause.file.name
