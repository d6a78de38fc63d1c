"""Every document in a template that a program other than CloudFormation reads has a seam.

A document is a property whose form CloudFormation's own schema leaves open, such as a policy or an event pattern, or a
text in a format of its own, such as a script or JSON. A resource type or a document that the table does not have fails
the test: name the seam whose reader reads it, or write one.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from tests.seams.resolved import Deployed, deployed, deployed_of
from tests.seams.seam import all_seams
from tests.seams.shapes import platforms, some_and_all_platforms

IDENTITY = "IAM policies of roles"
RESOURCE = "Trust policies, and policies of buckets, keys, topics, and VPC endpoints"
REQUEST = "Requests of CloudFormation to EKS, SageMaker, FSx, EC2, CodePipeline, and others"
WATCH = "Rules that watch the pipelines, and their runbooks"
ALARMS = "Alarms of the workspace of metrics, and whom they tell"
DASHBOARD = "CloudWatch dashboards and alarms"
# The seam of each document, by the resource's type and the property's path. Types without documents have an empty
# entry: cfn-lint and the API models of botocore read their properties.
DOCUMENTS: dict[str, dict[str, str]] = {
    "AWS::APS::RuleGroupsNamespace": {"Data": ALARMS},
    "AWS::APS::Scraper": {
        "ScrapeConfiguration.ConfigurationBlob": "Scrape configuration of the AWS managed collector",
    },
    "AWS::APS::Workspace": {"AlertManagerDefinition": ALARMS},
    "AWS::CloudFormation::WaitCondition": {},
    "AWS::CloudFormation::WaitConditionHandle": {},
    "AWS::CloudWatch::Alarm": {},
    "AWS::CloudWatch::Dashboard": {"DashboardBody": DASHBOARD},
    "AWS::CloudWatch::LogAlarm": {},
    "AWS::CodeBuild::Project": {
        "Source.BuildSpec": "Buildspecs",
    },
    "AWS::CodePipeline::Pipeline": {"Stages.Actions.Configuration": REQUEST},
    "AWS::EC2::EIP": {},
    "AWS::EC2::FlowLog": {},
    "AWS::EC2::InternetGateway": {},
    "AWS::EC2::LaunchTemplate": {"LaunchTemplateData.UserData": "user data of EC2 nodes"},
    "AWS::EC2::NatGateway": {},
    "AWS::EC2::PlacementGroup": {},
    "AWS::EC2::Route": {},
    "AWS::EC2::RouteTable": {},
    "AWS::EC2::SecurityGroup": {},
    "AWS::EC2::SecurityGroupEgress": {},
    "AWS::EC2::SecurityGroupIngress": {},
    "AWS::EC2::Subnet": {},
    "AWS::EC2::SubnetRouteTableAssociation": {},
    "AWS::EC2::VPC": {},
    "AWS::EC2::VPCEndpoint": {"PolicyDocument": RESOURCE},
    "AWS::EC2::VPCGatewayAttachment": {},
    "AWS::ECR::Repository": {"LifecyclePolicy.LifecyclePolicyText": "Lifecycle policies of ECR repositories"},
    "AWS::EKS::AccessEntry": {},
    "AWS::EKS::Addon": {"ConfigurationValues": "Configurations of EKS add-ons"},
    "AWS::EKS::Cluster": {},
    "AWS::EKS::Nodegroup": {},
    "AWS::EKS::PodIdentityAssociation": {},
    "AWS::Events::Rule": {"EventPattern": WATCH, "Targets.Input": WATCH},
    "AWS::FSx::DataRepositoryAssociation": {},
    "AWS::FSx::FileSystem": {},
    "AWS::IAM::Policy": {"PolicyDocument": IDENTITY},
    "AWS::IAM::Role": {"AssumeRolePolicyDocument": RESOURCE},
    "AWS::KMS::Key": {"KeyPolicy": RESOURCE},
    "AWS::Logs::LogGroup": {},
    "AWS::S3::Bucket": {},
    "AWS::S3::BucketPolicy": {"PolicyDocument": RESOURCE},
    "AWS::SQS::Queue": {},
    "AWS::SQS::QueuePolicy": {"PolicyDocument": RESOURCE},
    "AWS::Scheduler::Schedule": {"Target.Input": "Calls that schedules make"},
    "AWS::SNS::Subscription": {},
    "AWS::SNS::Topic": {},
    "AWS::SNS::TopicPolicy": {"PolicyDocument": RESOURCE},
    "AWS::SSM::Document": {"Content": WATCH},
    "AWS::SSM::Parameter": {"Value": "the hand-off"},
    "AWS::SageMaker::Cluster": {},
    "AWS::SageMaker::ClusterSchedulerConfig": {},
    "AWS::Signer::SigningProfile": {},
    "AWS::SageMaker::ComputeQuota": {},
}


@cache
def open_properties(kind: str) -> frozenset[str]:
    """Return the paths of the properties that the registry's schema of a resource type describes only as an object."""
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    schema: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema

    def below(node: Mapping[str, Any], path: str, above: frozenset[str]) -> Iterator[str]:
        if (reference := node.get("$ref")) is not None:
            name = reference.rpartition("/")[2]
            if name not in above:
                yield from below(schema["definitions"][name], path, above | {name})
            return
        types = node.get("type", [])
        described = {"properties", "patternProperties", "additionalProperties", "oneOf", "anyOf"} & node.keys()
        if path and "object" in ([types] if isinstance(types, str) else types) and not described:
            yield path
        for name, child in node.get("properties", {}).items():
            yield from below(child, f"{path}.{name}".removeprefix("."), above)
        children = [node["items"]] if isinstance(node.get("items"), dict) else []
        for child in [*children, *(each for key in ("oneOf", "anyOf", "allOf") for each in node.get(key, []))]:
            yield from below(child, path, above)

    return frozenset(below({"properties": schema["properties"]}, "", frozenset()))


def documents(kind: str, properties: Mapping[str, Any]) -> set[str]:
    """Return the paths of the properties of a resource that hold a document. Entries of a list share a path."""
    found = set()

    def walk(value: Any, path: str) -> None:
        if path in open_properties(kind) or (isinstance(value, str) and is_document(value)):
            found.add(path)
        elif isinstance(value, dict):
            for name, child in value.items():
                walk(child, f"{path}.{name}".removeprefix("."))
        elif isinstance(value, list):
            for child in value:
                walk(child, path)

    walk(properties, "")
    return found


def is_document(text: str) -> bool:
    """Whether a text has a format of its own: several lines, a JSON object or list, or one of them in Base64."""
    if "\n" in text.strip():
        return True
    if text.lstrip().startswith(("{", "[")):
        try:
            json.loads(text)
        except ValueError:
            return False
        return True
    try:
        return len(text) > 64 and "\n" in base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False


def without_a_seam(platform: Deployed) -> Iterator[str]:
    """Yield the resource types and the documents of a platform that the table does not have."""
    for role, each in platform.resources.items():
        for name, properties in each.items():
            kind = platform.types[role][name]
            if kind not in DOCUMENTS:
                yield f"{kind} ({role}/{name})"
            else:
                yield from sorted(f"{kind} {path}" for path in documents(kind, properties) - DOCUMENTS[kind].keys())


@pytest.mark.parametrize("names", some_and_all_platforms())
def test_every_document_of_a_template_has_a_seam(names: tuple[str, ...]) -> None:
    lacking = {line: name for name, platform in deployed(names).items() for line in without_a_seam(platform)}
    assert not lacking, "give each a seam whose reader reads it, and add it to DOCUMENTS"


@pytest.mark.exhaustive
def test_the_table_names_only_what_there_is() -> None:
    artifacts = {seam.artifact for seams in all_seams().values() for seam in seams}
    assert {seam for documents in DOCUMENTS.values() for seam in documents.values()} <= artifacts
    there: dict[str, set[str]] = {}
    for platform in deployed(platforms()).values():
        for role, each in platform.resources.items():
            for name, properties in each.items():
                kind = platform.types[role][name]
                there.setdefault(kind, set()).update(documents(kind, properties))
    assert there == {kind: set(documents) for kind, documents in DOCUMENTS.items()}


@pytest.mark.parametrize(
    ("kind", "properties", "found"),
    [
        ("AWS::Events::Rule", {"EventPattern": {"source": ["aws.sagemaker"]}}, {"EventPattern"}),
        ("AWS::SSM::Document", {"Content": {"schemaVersion": "2.2"}}, {"Content"}),
        ("AWS::SSM::Parameter", {"Value": '{"version": 1}'}, {"Value"}),
        ("AWS::EKS::Addon", {"ConfigurationValues": '{"replicaCount": 1}'}, {"ConfigurationValues"}),
        ("AWS::ECR::Repository", {"LifecyclePolicy": {"LifecyclePolicyText": '{"rules": []}'}}, None),
        ("AWS::Events::Rule", {"Description": "A rule.", "Name": "{not JSON}"}, set()),
    ],
)
def test_a_document_is_found(kind: str, properties: dict[str, Any], found: set[str] | None) -> None:
    assert documents(kind, properties) == ({"LifecyclePolicy.LifecyclePolicyText"} if found is None else found)


def test_a_first_state_machine_fails() -> None:
    name = "platform"
    platform = deployed_of(name)
    role = next(iter(platform.resources))
    machine = {"DefinitionString": "{}"}
    changed = Deployed(
        platform.region,
        platform.resources | {role: platform.resources[role] | {"Machine": machine}},
        platform.types | {role: platform.types[role] | {"Machine": "AWS::StepFunctions::StateMachine"}},
    )
    assert list(without_a_seam(changed)) == [f"AWS::StepFunctions::StateMachine ({role}/Machine)"], name
