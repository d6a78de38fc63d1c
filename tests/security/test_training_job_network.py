"""Threat: the code of a training job uses the job's role to change the network of others in the account.

SageMaker creates the network interfaces of a job in the job's role, and the code has the same role. EC2 asks IAM about
every resource of a request, and about an existing interface with the condition keys of that interface.
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html (read 2026-11-29)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.seams.evaluator import Question, allowed, role
from tests.seams.policies import Change, Document, identity_policies, without_conditions
from tests.seams.resolved import ACCOUNT, Deployed, deployed_of
from tests.seams.shapes import platforms, some_and_all_platforms
from tests.seams.stacks import files_of
from trainway.spec.handoff import HandOff, Pointer, TrainingJobs, fill

CREATE = "ec2:CreateNetworkInterface"
OF_EXISTING = tuple(
    f"ec2:{each}NetworkInterface{what}"
    for each, what in (("Create", "Permission"), ("Delete", ""), ("Delete", "Permission"))
)
LOOK = tuple(
    f"ec2:Describe{each}" for each in ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")
)
# Those that the documented policy of a training job in a VPC does not have.
NEVER = ("ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute")
ROLE = "TrainingJobRole"
# A subnet and a security group of the account's owner, for example of a database.
SUBNET, GROUP = "subnet-0fedcba9876543210", "sg-0fedcba9876543210"


def network_of(name: str) -> TrainingJobs | None:
    """Return the subnets and security groups of training jobs in the hand-off of the platform."""
    parameters = deployed_of(name).of_type("AWS::SSM::Parameter").values()
    (value,) = (each["Value"] for each in parameters if each["Name"].endswith("/hand-off"))
    pointer = Pointer.model_validate_json(value)
    return HandOff.model_validate_json(fill(files_of(name)[pointer.key], pointer.values)).training_jobs


def roles_of(platform: Deployed) -> Iterator[tuple[str, list[Document]]]:
    """Yield the name and the policies of each training-job role: the shared role, and the roles of teams."""
    for stack, name in platform.of_type("AWS::IAM::Role"):
        if name.startswith(ROLE):
            yield name, identity_policies(platform, stack, name)


def needs(owner: str, policies: list[Document], network: TrainingJobs, region: str) -> Iterator[Question]:
    """Yield what SageMaker does in a role for a job in the network of the nodes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createtrainingjob-perms, "If
    you specify a private VPC" (read 2026-11-29)
    """
    at = f"arn:aws:ec2:{region}:{ACCOUNT}"
    yield Question(role(owner), CREATE, f"{at}:network-interface/eni-1", policies)
    for action in LOOK:
        yield Question(role(owner), action, "*", policies)
    for group in network.security_group_ids:
        yield Question(role(owner), CREATE, f"{at}:security-group/{group}", policies)
    for subnet in network.subnet_ids.values():
        yield Question(role(owner), CREATE, f"{at}:subnet/{subnet}", policies)
        for action in OF_EXISTING:
            inside = {"ec2:Subnet": f"{at}:subnet/{subnet}"}
            yield Question(role(owner), action, f"{at}:network-interface/eni-1", policies, context=inside)


def attempts(owner: str, policies: list[Document], region: str) -> Iterator[Question]:
    """Yield the attempts of a job's code: create an interface beside a database, and delete one of another service."""
    at = f"arn:aws:ec2:{region}:{ACCOUNT}"
    interface, inside = f"{at}:network-interface/eni-2", {"ec2:Subnet": f"{at}:subnet/{SUBNET}"}
    yield Question(role(owner), CREATE, f"{at}:subnet/{SUBNET}", policies)
    yield Question(role(owner), CREATE, f"{at}:security-group/{GROUP}", policies)
    for action in OF_EXISTING:
        yield Question(role(owner), action, interface, policies, context=inside)
        # An interface whose subnet the request does not tell is none of the platform's.
        yield Question(role(owner), action, interface, policies)
    for action in NEVER:
        yield Question(role(owner), action, interface, policies, context=inside)


def wrong(name: str, change: Change | None = None) -> list[str]:
    """Return missing and excess permissions of a role. `change` plants an error in each policy document."""
    platform, network = copy.deepcopy(deployed_of(name)), network_of(name)
    assert network is not None
    asked: list[tuple[bool, Question]] = []
    for owner, policies in roles_of(platform):
        for document in policies if change else ():
            assert change
            change(document)
        asked += [(True, each) for each in needs(owner, policies, network, platform.region)]
        asked += [(False, each) for each in attempts(owner, policies, platform.region)]
    assert asked, f"{name} has no role of training jobs"
    answers = allowed([question for _, question in asked])
    return [
        f"{question.principal} {'may not' if may else 'may'} {question.action} on {question.resource}"
        for (may, question), answer in zip(asked, answers, strict=True)
        if may != answer
    ]


@pytest.mark.parametrize("names", some_and_all_platforms())
def test_a_training_job_has_interfaces_in_the_network_of_the_nodes_and_nowhere_else(names: tuple[str, ...]) -> None:
    with_jobs = [name for name in names if platforms()[name].iam.training_jobs]
    assert len(with_jobs) > 1
    assert {name: found for name in with_jobs if (found := wrong(name))} == {}


def anywhere(document: Document) -> None:
    """Remove the subnets and security groups from a policy document."""
    for statement in document["Statement"]:
        if CREATE in statement["Action"]:
            statement["Resource"] = [f"arn:aws:ec2:*:{ACCOUNT}:{kind}/*" for kind in ("subnet", "security-group")]


def one_subnet_less(document: Document) -> None:
    for statement in document["Statement"]:
        if CREATE in statement["Action"]:
            statement["Resource"].remove(next(each for each in statement["Resource"] if ":subnet/" in each))


@pytest.mark.parametrize(
    ("mistake", "said"),
    [(anywhere, f"may {CREATE}"), (without_conditions, "may ec2:Delete"), (one_subnet_less, f"may not {CREATE}")],
)
def test_a_mistake_in_the_policy_is_found(mistake: Change, said: str) -> None:
    assert any(said in each for each in wrong("several-teams", mistake))
