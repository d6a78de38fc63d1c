"""A role is assumed by whom it is for: no service acts on it for a stranger, and no pod of another cluster has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.synthesis import Template, resources

POD_IDENTITY = "pods.eks.amazonaws.com"


def statements(synthesized: dict[str, dict[str, Template]], type_: str, policy: str) -> Iterator[dict[str, Any]]:
    for by_role in synthesized.values():
        for template in by_role.values():
            for resource in resources(template, type_).values():
                yield from resource[policy]["Statement"]


def trust(synthesized: dict[str, dict[str, Template]]) -> list[dict[str, Any]]:
    """Who assumes roles, but for people."""
    everybody = statements(synthesized, "AWS::IAM::Role", "AssumeRolePolicyDocument")
    return [statement for statement in everybody if "Service" in statement["Principal"]]


def test_services_assume_roles_for_this_account_only(synthesized: dict[str, dict[str, Template]]) -> None:
    from stacks.constructs.iam.trust import SAYS_NOTHING

    asked, exempt = set(), {f"{name}.amazonaws.com" for name in SAYS_NOTHING}
    for statement in trust(synthesized):
        name = statement["Principal"]["Service"]
        if name not in exempt | {POD_IDENTITY}:
            assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}, name
            asked.add(name)
    services = ("cloudwatch", "codebuild", "eks", "events", "logs", "ssm", "vpc-flow-logs")
    assert asked == {f"{name}.amazonaws.com" for name in services}


def test_pods_of_one_service_account_of_one_cluster_assume_a_role(synthesized: dict[str, dict[str, Template]]) -> None:
    for statement in (each for each in trust(synthesized) if each["Principal"]["Service"] == POD_IDENTITY):
        assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
        asked = statement["Condition"]["StringEquals"]
        assert is_the_clusters_arn(asked["aws:RequestTag/eks-cluster-arn"])
        assert asked["aws:RequestTag/kubernetes-namespace"] and asked["aws:RequestTag/kubernetes-service-account"]


def is_the_clusters_arn(value: Any) -> bool:
    """Asked of the cluster in its own stack, and brought from there into the others."""
    return value.get("Fn::GetAtt", [""])[-1] == "Arn" or "ControlPlaneCluster" in value.get("Fn::ImportValue", "")


def test_every_association_is_one_that_its_role_trusts(synthesized: dict[str, dict[str, Template]]) -> None:
    checked = 0
    for by_role in synthesized.values():
        cluster = by_role["cluster"]
        roles = resources(cluster, "AWS::IAM::Role")
        for association in resources(cluster, "AWS::EKS::PodIdentityAssociation").values():
            (statement,) = roles[association["RoleArn"]["Fn::GetAtt"][0]]["AssumeRolePolicyDocument"]["Statement"]
            asked = statement["Condition"]["StringEquals"]
            namespaces = asked["aws:RequestTag/kubernetes-namespace"]
            assert association["Namespace"] in ([namespaces] if isinstance(namespaces, str) else namespaces)
            assert association["ServiceAccount"] == asked["aws:RequestTag/kubernetes-service-account"]
            checked += 1
    assert checked


def test_addons_that_call_aws_have_a_role_of_their_own_and_nodes_have_none_of_it(
    synthesized: dict[str, dict[str, Template]],
) -> None:
    cluster = synthesized["eks-p5"]["control-plane"]
    roles = resources(cluster, "AWS::IAM::Role")
    identified = {}
    for addon in resources(cluster, "AWS::EKS::Addon").values():
        for association in addon.get("PodIdentityAssociations", []):
            role = roles[association["RoleArn"]["Fn::GetAtt"][0]]
            (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
            asked = statement["Condition"]["StringEquals"]
            assert asked["aws:RequestTag/kubernetes-service-account"] == association["ServiceAccount"]
            identified[addon["AddonName"]] = json.dumps(role)
    assert set(identified) == {"vpc-cni", "aws-fsx-csi-driver"}
    assert "AmazonEKS_CNI_Policy" in identified["vpc-cni"]
    (node,) = (role for name, role in roles.items() if "NodeRole" in name)
    assert "AmazonEKS_CNI_Policy" not in json.dumps(node)


def test_aws_services_that_write_into_what_is_ours_are_asked_for_whom(
    synthesized: dict[str, dict[str, Template]],
) -> None:
    """Resource policies: keys, topics, buckets. Logs' key is asked for its log groups, which are the account's."""
    for type_, policy in {
        "AWS::KMS::Key": "KeyPolicy",
        "AWS::SNS::TopicPolicy": "PolicyDocument",
        "AWS::S3::BucketPolicy": "PolicyDocument",
    }.items():
        for statement in statements(synthesized, type_, policy):
            principal = statement["Principal"]
            if statement["Effect"] == "Allow" and isinstance(principal, dict) and "Service" in principal:
                asked = json.dumps(statement.get("Condition", {}))
                assert "aws:SourceAccount" in asked or "kms:EncryptionContext:aws:logs:arn" in asked, statement


def test_a_service_that_nobody_has_looked_up_is_refused() -> None:
    from stacks.constructs.iam.trust import service

    with pytest.raises(ValueError, match="look up"):
        service("glue")
