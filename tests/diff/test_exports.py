"""An export that leaves holds a deploy back unless its importer is deployed first, or the edit is refused."""

from __future__ import annotations

from trainway.diff.exports import deployed_first, held_exports
from trainway.diff.tokens import StackTemplate


def producer(*exports: str) -> StackTemplate:
    return {"Resources": {}, "Outputs": {name: {"Value": "x", "Export": {"Name": name}} for name in exports}}


def consumer(*imports: str) -> StackTemplate:
    values = [{"Fn::Join": ["", [{"Fn::ImportValue": name}]]} for name in imports]
    return {"Resources": {"R": {"Type": "AWS::SNS::Topic", "Properties": {"Values": values}}}}


DEPLOYED = {"files": producer("stays", "leaves"), "cluster": consumer("stays", "leaves")}


def test_a_stack_that_lets_go_of_an_export_is_deployed_first() -> None:
    wanted = {"files": producer("stays"), "cluster": consumer("stays")}
    assert deployed_first(DEPLOYED, wanted) == ("cluster",)
    assert held_exports(DEPLOYED, wanted) == []


def test_a_stack_that_needs_a_new_export_at_the_same_time_is_refused() -> None:
    wanted = {"files": producer("stays", "new"), "cluster": consumer("stays", "new")}
    assert deployed_first(DEPLOYED, wanted) == ()
    (refusal,) = held_exports(DEPLOYED, wanted)
    assert (refusal.stack, refusal.can_be_allowed) == ("files", False)
    assert "export leaves" in refusal.why and "cluster imports it" in refusal.why


def test_a_stack_that_the_file_has_no_more_holds_its_imports() -> None:
    (refusal,) = held_exports(DEPLOYED, {"files": producer("stays")})
    assert "cluster imports it" in refusal.why


def test_an_export_that_nobody_imports_leaves_without_a_word() -> None:
    deployed = {"files": producer("stays", "leaves"), "cluster": consumer("stays")}
    wanted = {"files": producer("stays"), "cluster": consumer("stays")}
    assert deployed_first(deployed, wanted) == ()
    assert held_exports(deployed, wanted) == []
