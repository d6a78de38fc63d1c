"""IAM policies, trust policies, and resource policies: read by a linter, and asked for what they must not allow."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.seams.evaluator import ANONYMOUS, Question, allowed, role
from tests.seams.policies import EVERYTHING, Change, Document, Policy, policies_of, without_conditions
from tests.seams.policy_lint import findings
from tests.seams.resolved import ACCOUNT, Deployed, deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms, some_and_all_platforms

STRANGER = "999999999999"
# Findings of the linter that are no mistakes: the kind of issue, what the message matches, and why.
ACCEPTED = (
    (
        "missing_required_condition_any_of|missing_condition",
        "require at least ONE of|should have conditions",
        "The linter's advice for actions that it calls sensitive. Each is limited by its resources, which name the "
        "account or the platform's own bucket. Roles without a condition are those of SAYS_NOTHING in trust.py.",
    ),
    (
        "overly_permissive",
        r"cloudwatch:PutMetricData|`kms:\w|[`']kms:\*",
        "PutMetricData is limited by its namespace, since the reference's dataset type holds no custom metrics. A key "
        "policy's resource is the key itself: https://docs.aws.amazon.com/kms/latest/developerguide/key-policies.html",
    ),
    (
        "forallvalues_allow_without_null_check",
        "kms:GrantOperations",
        "A grant always names its operations, and the statement is AWS's own: "
        "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-iam.html",
    ),
    (
        "confused_deputy_risk",
        r"pods\.eks\.amazonaws\.com",
        "The cluster's ARN, which holds the account, is asked of the session's tags: "
        "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html",
    ),
    (
        "confused_deputy_risk",
        r"logs\.[a-z0-9-]+\.amazonaws\.com",
        "The encryption context holds the log group's ARN, with the account: "
        "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html",
    ),
    (
        "invalid_condition_key",
        r"`kms:EncryptionContext:aws:logs:arn`",
        "The reference has kms:EncryptionContext:${EncryptionContextKey}. The linter does not match keys with colons.",
    ),
)


def accepted() -> tuple[tuple[str, str, str], ...]:
    """Return the findings that are no mistakes, those about services that name no account among them."""
    from stacks.constructs.iam.trust import SAYS_NOTHING

    services = "|".join(re.escape(f"`{name}.amazonaws.com`") for name in SAYS_NOTHING)
    why = "Services whose documented trust policies have no condition: see SAYS_NOTHING in constructs/iam/trust.py."
    return (*ACCEPTED, ("confused_deputy_risk", services, why))


def mistakes(policies: list[Policy]) -> list[str]:
    """Return what the linter says about policies, without what is accepted."""
    return [
        f"{policy.owner} {policy.where}: {message} ({issue})"
        for policy, issue, message in findings(policies)
        if not any(re.fullmatch(kinds, issue) and re.search(words, message) for kinds, words, _ in accepted())
    ]


each_set = pytest.mark.parametrize("names", some_and_all_platforms())


def distinct(names: Iterable[str]) -> list[Policy]:
    """Return the policies of platforms, each document once."""
    every = [policy for platform in deployed(names).values() for policy in policies_of(platform)]
    return list({(policy.kind, json.dumps(policy.document, sort_keys=True)): policy for policy in every}.values())


@each_set
def test_the_linter_finds_no_mistake_in_any_policy(names: tuple[str, ...]) -> None:
    policies = distinct(names)
    print(f"{len(policies)} policies that differ")
    assert {policy.kind for policy in policies} == {"identity", "trust", "resource", "endpoint"}
    assert mistakes(policies) == []


@pytest.mark.exhaustive
def test_every_accepted_finding_still_occurs() -> None:
    said = [(issue, message) for _, issue, message in findings(distinct(platforms()))]
    for kinds, words, why in accepted():
        assert any(re.fullmatch(kinds, issue) and re.search(words, message) for issue, message in said), words
        assert len(why.split()) > 10


# What nobody may do, with the reason why the policy must not allow it.
def forbidden(platform: Deployed) -> Iterator[tuple[str, Question]]:
    """Yield what a platform's resource and trust policies must not allow."""
    for policy in platform.of_type("AWS::S3::BucketPolicy").values():
        bucket = f"arn:aws:s3:::{policy['Bucket']}"
        theirs = policy["PolicyDocument"]
        for action, resource in (("s3:GetObject", f"{bucket}/corpus/a"), ("s3:PutObject", f"{bucket}/corpus/a")):
            yield "the public", Question(ANONYMOUS, action, resource, resource_policy=theirs)
            yield "another account", Question(role("any", STRANGER), action, resource, [EVERYTHING], theirs)
            without_tls = {"aws:SecureTransport": "false"}
            yield "without TLS", Question(role("admin"), action, resource, [EVERYTHING], theirs, context=without_tls)
    for (_, name), made in platform.of_type("AWS::IAM::Role").items():
        arn, trust = f"arn:aws:iam::{ACCOUNT}:role/{name}", made["AssumeRolePolicyDocument"]
        yield "another account", Question(role("any", STRANGER), "sts:AssumeRole", arn, [EVERYTHING], trust)
        for principal in services(trust):
            # Services that say for whom they act: tests/security/test_trust.py has those that do not.
            if "aws:SourceAccount" in json.dumps(trust):
                for_others = {"aws:SourceAccount": STRANGER}
                yield (
                    f"{principal} for another account",
                    Question(principal, "sts:AssumeRole", arn, resource_policy=trust, context=for_others),
                )
            if principal == "pods.eks.amazonaws.com":
                others = {"aws:RequestTag/eks-cluster-arn": f"arn:aws:eks:us-west-2:{STRANGER}:cluster/theirs"}
                yield (
                    "a pod of another cluster",
                    Question(principal, "sts:AssumeRole", arn, resource_policy=trust, context=others),
                )
    for (_, name), key in platform.of_type("AWS::KMS::Key").items():
        arn = platform_key(platform, name)
        yield "another account", Question(role("any", STRANGER), "kms:Decrypt", arn, [EVERYTHING], key["KeyPolicy"])
    for policy in platform.of_type("AWS::SNS::TopicPolicy").values():
        (topic,), theirs = policy["Topics"], policy["PolicyDocument"]
        yield "another account", Question(role("any", STRANGER), "sns:Publish", topic, [EVERYTHING], theirs)
        yield "the public", Question(ANONYMOUS, "sns:Publish", topic, resource_policy=theirs)
        for_others = {
            "aws:SourceAccount": STRANGER,
            "aws:SourceArn": f"arn:aws:cloudwatch:us-west-2:{STRANGER}:alarm:a",
        }
        yield (
            "alarms of another account",
            Question("cloudwatch.amazonaws.com", "sns:Publish", topic, resource_policy=theirs, context=for_others),
        )


def platform_key(platform: Deployed, name: str) -> str:
    return f"arn:aws:kms:{platform.region}:{ACCOUNT}:key/{name}"


def services(trust: Document) -> list[str]:
    """Return the services that a trust policy names."""
    return [
        name
        for statement in trust["Statement"]
        for name in [statement["Principal"].get("Service")]
        if isinstance(name, str)
    ]


@each_set
def test_no_policy_lets_in_the_public_another_account_or_a_service_for_one(names: tuple[str, ...]) -> None:
    asked = {
        json.dumps([who, question.action, question.resource, str(question.principal), question.resource_policy]): (
            f"{name}: {who}, {question.action} on {question.resource}",
            question,
        )
        for name, platform in deployed(names).items()
        for who, question in forbidden(platform)
    }
    assert len(asked) > 100
    print(f"{len(asked)} questions that differ")
    answers = allowed([question for _, question in asked.values()])
    assert [said for (said, _), may in zip(asked.values(), answers, strict=True) if may] == []


def passing(platform: Deployed) -> Iterator[tuple[bool, Question]]:
    """Yield what the endpoint of S3 lets through, and what not, whoever asks and however much they may do.

    An endpoint's policy and the caller's must both allow a request. The evaluator knows no endpoints, so that their
    policies stand in the place of the caller's, without the principal, which is anybody.
    https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html (read 2026-11-22)
    """
    for endpoint in platform.of_type("AWS::EC2::VPCEndpoint").values():
        if "PolicyDocument" not in endpoint:
            continue
        policy = copy.deepcopy(endpoint["PolicyDocument"])
        for statement in policy["Statement"]:
            assert statement.pop("Principal") in ("*", {"AWS": "*"})
        wait = f"arn:aws:s3:::cloudformation-waitcondition-{platform.region}/a"
        for action, resource, owner, may in (
            ("s3:PutObject", "arn:aws:s3:::own/a", ACCOUNT, True),
            ("s3:DeleteObject", "arn:aws:s3:::own/a", ACCOUNT, True),
            ("s3:ListBucket", "arn:aws:s3:::own", ACCOUNT, True),
            ("s3:GetObject", "arn:aws:s3:::theirs/a", STRANGER, True),
            ("s3:PutObject", wait, STRANGER, True),
            ("s3:PutObject", "arn:aws:s3:::theirs/a", STRANGER, False),
            ("s3:DeleteObject", "arn:aws:s3:::theirs/a", STRANGER, False),
            ("s3:PutBucketPolicy", "arn:aws:s3:::theirs", STRANGER, False),
        ):
            yield may, Question(role("any"), action, resource, [policy], context={"aws:ResourceAccount": owner})


def leaks(platform: Deployed) -> list[str]:
    """Return the requests that the endpoint of S3 lets through or holds back wrongly."""
    asked = list(passing(platform))
    answers = allowed([question for _, question in asked])
    return [
        f"{question.action} on {question.resource} passes: {answer}"
        for (may, question), answer in zip(asked, answers, strict=True)
        if may != answer
    ]


def test_the_endpoint_of_s3_lets_no_data_out_to_other_accounts() -> None:
    both = [deployed_of(name) for name in ("eks-p5", "closed-hyperpod-eks")]
    assert all(list(passing(platform)) for platform in both)
    assert [leak for platform in both for leak in leaks(platform)] == []


@each_set
def test_repositories_of_images_have_no_policy_of_their_own(names: tuple[str, ...]) -> None:
    """Only roles of the account reach them. What roles may do with them is asked of the roles' own policies."""
    repositories = [each for name in names for each in deployed_of(name).of_type("AWS::ECR::Repository").values()]
    assert repositories
    assert not any("RepositoryPolicyText" in each for each in repositories)


def unusable(platform: Deployed) -> list[str]:
    """Return the services that cannot assume a role of theirs for this account."""
    asked = [
        Question(
            principal,
            "sts:AssumeRole",
            f"arn:aws:iam::{ACCOUNT}:role/{name}",
            resource_policy=made["AssumeRolePolicyDocument"],
            context={"aws:SourceAccount": ACCOUNT},
        )
        for (_, name), made in platform.of_type("AWS::IAM::Role").items()
        for principal in services(made["AssumeRolePolicyDocument"])
        # EKS Pod Identity asks with tags of the session: tests/security/test_trust.py.
        if principal != "pods.eks.amazonaws.com"
    ]
    assert len(asked) > 5
    return [str(question.principal) for question, may in zip(asked, allowed(asked), strict=True) if not may]


def test_a_service_assumes_its_role_for_this_account() -> None:
    assert unusable(deployed_of("eks-p5")) == []


@cache
def first(owner: str, word: str) -> Policy:
    """Return the first policy of an example whose owner has a type and whose place contains a word."""
    return next(
        policy for policy in policies_of(deployed_of("eks-p5")) if policy.owner == owner and word in policy.where
    )


def linted(error: str, owner: str, word: str, change: Change) -> Planted:
    """Plant an error that the linter must find."""

    def read(change: Change | None, _: Path) -> list[str]:
        policy = copy.deepcopy(first(owner, word))
        if change:
            change(policy.document)
        return mistakes([policy])

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def let_in(platform: Deployed) -> list[str]:
    """Return who is let in whom the policies must keep out."""
    asked = list(forbidden(platform))
    answers = allowed([question for _, question in asked])
    return [who for (who, _), may in zip(asked, answers, strict=True) if may]


def evaluated(error: str, owner: str, change: Change, ask: Callable[[Deployed], list[str]] = let_in) -> Planted:
    """Plant an error in all policies of one type of resource that the evaluator must find."""

    def read(change: Change | None, _: Path) -> list[str]:
        platform = copy.deepcopy(deployed_of("eks-p5"))
        if change:
            for policy in policies_of(platform):
                if policy.owner == owner:
                    change(policy.document)
        return ask(platform)

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def first_statement(document: Document) -> dict[str, Any]:
    statement: dict[str, Any] = document["Statement"][0]
    return statement


def open_to_all(document: Document) -> None:
    document["Statement"] = [each for each in document["Statement"] if each["Effect"] == "Allow"]
    document["Statement"].append({"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"})


SEAMS = (
    Seam(
        artifact="IAM policies of roles",
        rendered_by="stacks/constructs/iam/permissions.py",
        reader="iam-policy-validator, with the actions, resources, and condition keys of AWS's service reference",
        instead="IAM runs only in AWS. The reference is what AWS publishes about it.",
        planted=(
            linted(
                "an action is misspelled",
                "AWS::IAM::Policy",
                "BuildRole",
                lambda it: first_statement(it).update(Action="logs:PutLogEvent"),
            ),
            linted(
                "a condition key is misspelled",
                "AWS::IAM::Policy",
                "BuildRole",
                lambda it: first_statement(it).update(Condition={"StringEquals": {"aws:SourceAcount": ACCOUNT}}),
            ),
            linted(
                "a wildcard stands where the action has a resource type",
                "AWS::IAM::Policy",
                "BuildRole",
                lambda it: first_statement(it).update(Resource="*"),
            ),
            linted(
                "the resource is of a type that the action does not have",
                "AWS::IAM::Policy",
                "BuildRole",
                lambda it: first_statement(it).update(Resource="arn:aws:s3:::bucket"),
            ),
            linted(
                "the effect is misspelled",
                "AWS::IAM::Policy",
                "BuildRole",
                lambda it: first_statement(it).update(Effect="Permit"),
            ),
        ),
    ),
    Seam(
        artifact="Trust policies, and policies of buckets, keys, topics, and VPC endpoints",
        rendered_by="stacks/constructs/iam/trust.py",
        reader="iam-policy-validator, and @cloud-copilot/iam-simulate, which answers who is let in",
        instead="IAM runs only in AWS.",
        planted=(
            evaluated(
                "a trust policy allows another action than to assume the role",
                "AWS::IAM::Role",
                lambda it: first_statement(it).update(Action="sts:GetCallerIdentity"),
                unusable,
            ),
            evaluated("trust has no condition", "AWS::IAM::Role", without_conditions),
            evaluated("the endpoint of S3 writes to any bucket", "AWS::EC2::VPCEndpoint", without_conditions, leaks),
            evaluated(
                "the endpoint of S3 reads the account's own buckets only",
                "AWS::EC2::VPCEndpoint",
                lambda it: it["Statement"].pop(1),
                leaks,
            ),
            evaluated("a bucket is open to the public and without TLS", "AWS::S3::BucketPolicy", open_to_all),
            evaluated("a topic takes messages of any account's alarms", "AWS::SNS::TopicPolicy", without_conditions),
            evaluated(
                "a key may be used by everybody",
                "AWS::KMS::Key",
                lambda it: first_statement(it).update(Principal={"AWS": "*"}),
            ),
        ),
    ),
)
