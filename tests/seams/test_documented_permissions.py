"""Roles of add-ons, drivers, and nodes may do what their publishers document, or a reason says why not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.seams.documented_policies import Documented, documented, questions
from tests.seams.evaluator import Question, allowed
from tests.seams.policies import identity_policies
from tests.seams.resolved import Deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms
from tests.seams.stacks import NAME_OF_SHAPES
from tests.synthesis import EXAMPLES
from trainway.manifests.lustre_volume import lustre_storage_class

Asked = tuple[bool, str, Question]


def asked_of(entry: Documented, name: str, deployed: Deployed) -> list[Asked]:
    """Return the questions of one entry to one platform."""
    own = platforms()[name].name if name in {file.stem for file in EXAMPLES} else NAME_OF_SHAPES
    return [(may, f"{entry.what} of {name}", question) for may, question in questions(entry, deployed, own)]


def wrong(asked: Sequence[Asked]) -> list[str]:
    """Return the questions whose answer is not the expected one."""
    answers = allowed([question for _, _, question in asked])
    return [
        f"{who} {'may not' if may else 'may'} {question.action} on {question.resource}"
        for (may, who, question), answer in zip(asked, answers, strict=True)
        if may != answer
    ]


def test_each_role_may_do_what_is_documented_and_not_what_is_excepted() -> None:
    asked = [
        each for entry in documented() for name in entry.platforms for each in asked_of(entry, name, deployed_of(name))
    ]
    print(f"{len(asked)} questions, {sum(may for may, _, _ in asked)} of them to be allowed")
    assert wrong(asked) == []


def test_each_exception_has_a_reason_and_each_entry_its_source() -> None:
    for entry in documented():
        assert all(len(why.split()) > 7 for why in entry.without.values()), entry.what
        assert entry.source.startswith("https://") and "read 2026" in entry.source


def test_the_observability_add_on_collects_no_logs_of_pods() -> None:
    """Its role may write none."""
    addons = deployed_of("hyperpod-eks-shared").of_type("AWS::EKS::Addon").values()
    (addon,) = (each for each in addons if each["AddonName"] == "amazon-sagemaker-hyperpod-observability")
    assert json.loads(addon["ConfigurationValues"])["logging"] == {"enabled": False}


def test_volumes_for_claims_have_the_tag_that_the_drivers_role_asks_for() -> None:
    (storage_class,) = lustre_storage_class(platforms()["dynamic-volumes"].model_copy(update={"name": "shape"}))
    key, _, value = storage_class["parameters"]["extraTags"].partition("=")
    conditions = [set(entry.only_if) for entry in documented() if entry.what.startswith("FSx CSI") and entry.only_if]
    assert conditions == [{f"aws:RequestTag/{key}"}, {f"aws:ResourceTag/{key}"}]
    assert value == NAME_OF_SHAPES


Change = Callable[[dict[str, Any]], None]


def planted(error: str, what: str, name: str, change: Change) -> Planted:
    """Plant an error in the statements of the roles that an entry is about."""
    (entry,) = (each for each in documented() if each.what == what)

    def read(change: Change | None, _: Path) -> list[str]:
        deployed = copy.deepcopy(deployed_of(name))
        for stack, role in list(deployed.of_type("AWS::IAM::Role")):
            if change and role.startswith(entry.role):
                change(deployed.resources[stack][role])
                for policy in identity_policies(deployed, stack, role):
                    for statement in policy["Statement"]:
                        change(statement)
        return wrong(asked_of(entry, name, deployed))

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def without(action: str, statement: dict[str, Any]) -> None:
    """Take an action out of a statement."""
    if isinstance(statement.get("Action"), list) and action in statement["Action"]:
        statement["Action"].remove(action)
    elif statement.get("Action") == action:
        statement["Action"] = "sts:GetCallerIdentity"


def without_managed_policies(properties: dict[str, Any]) -> None:
    properties.pop("ManagedPolicyArns", None)


def on_interfaces_only(statement: dict[str, Any]) -> None:
    if isinstance(statement.get("Resource"), list):
        statement["Resource"] = [each for each in statement["Resource"] if ":instance/" not in each]


def without_condition(statement: dict[str, Any]) -> None:
    statement.pop("Condition", None)


def on_another_cluster(statement: dict[str, Any]) -> None:
    if statement.get("Action") == "sagemaker:DescribeClusterNode":
        statement["Resource"] = "arn:aws:sagemaker:us-east-1:111122223333:cluster/another"


SEAMS = (
    Seam(
        artifact="Roles of EKS add-ons, of autoscalers, and of nodes",
        rendered_by="stacks/constructs/hyperpod/execution_role.py",
        reader="@cloud-copilot/iam-simulate, asked for all that AWS's managed policies and the publishers' "
        "documentation list; an exception has a reason",
        instead="IAM runs only in AWS. moto records AWS's managed policies.",
        planted=(
            planted("the CNI's policy is not attached", "VPC CNI", "eks-p5", without_managed_policies),
            planted(
                "HyperPod's nodes under Slurm detach interfaces from no instance",
                "HyperPod's nodes in a VPC",
                "slurm-homes",
                on_interfaces_only,
            ),
            planted(
                "HyperPod's nodes write no log",
                "HyperPod's nodes",
                "slurm-homes",
                partial(without, "logs:PutLogEvents"),
            ),
            planted(
                "the FSx driver deletes any file system",
                "FSx CSI driver that changes a file system that it made",
                "dynamic-volumes",
                without_condition,
            ),
            planted(
                "the training operator asks about another cluster",
                "HyperPod's training operator",
                "governance",
                on_another_cluster,
            ),
            planted(
                "the observability add-on writes no metrics",
                "HyperPod's observability add-on",
                "hyperpod-eks-shared",
                partial(without, "aps:RemoteWrite"),
            ),
            planted(
                "the Cluster Autoscaler scales any Auto Scaling group",
                "Cluster Autoscaler that scales",
                "eks-p5",
                without_condition,
            ),
            planted(
                "Karpenter removes no nodes",
                "Karpenter of HyperPod",
                "karpenter",
                partial(without, "sagemaker:BatchDeleteClusterNodes"),
            ),
        ),
    ),
)
