"""Properties of CloudFormation resources as the requests that CloudFormation sends to the services.

The registry's schemas leave out most of what an API checks. For each type here, the properties are the parameters of
one operation, up to the case of the first letter and what `request` changes.
"""

from __future__ import annotations

import json
from typing import Any

from tests.service_model import service_model, shape_problems

REQUESTS = {
    "AWS::APS::RuleGroupsNamespace": ("amp", "CreateRuleGroupsNamespace"),
    "AWS::APS::Scraper": ("amp", "CreateScraper"),
    "AWS::APS::Workspace": ("amp", "CreateWorkspace"),
    "AWS::CloudWatch::Alarm": ("cloudwatch", "PutMetricAlarm"),
    "AWS::CloudWatch::Dashboard": ("cloudwatch", "PutDashboard"),
    "AWS::CodeBuild::Project": ("codebuild", "CreateProject"),
    "AWS::CodePipeline::Pipeline": ("codepipeline", "CreatePipeline"),
    "AWS::EC2::FlowLog": ("ec2", "CreateFlowLogs"),
    "AWS::EC2::LaunchTemplate": ("ec2", "CreateLaunchTemplate"),
    "AWS::EC2::VPCEndpoint": ("ec2", "CreateVpcEndpoint"),
    "AWS::ECR::Repository": ("ecr", "CreateRepository"),
    "AWS::EKS::AccessEntry": ("eks", "CreateAccessEntry"),
    "AWS::EKS::Addon": ("eks", "CreateAddon"),
    "AWS::EKS::Cluster": ("eks", "CreateCluster"),
    "AWS::EKS::Nodegroup": ("eks", "CreateNodegroup"),
    "AWS::EKS::PodIdentityAssociation": ("eks", "CreatePodIdentityAssociation"),
    "AWS::FSx::DataRepositoryAssociation": ("fsx", "CreateDataRepositoryAssociation"),
    "AWS::FSx::FileSystem": ("fsx", "CreateFileSystem"),
    "AWS::IAM::Role": ("iam", "CreateRole"),
    "AWS::KMS::Key": ("kms", "CreateKey"),
    "AWS::SSM::Parameter": ("ssm", "PutParameter"),
    "AWS::SageMaker::Cluster": ("sagemaker", "CreateCluster"),
    "AWS::SageMaker::ClusterSchedulerConfig": ("sagemaker", "CreateClusterSchedulerConfig"),
    "AWS::SageMaker::ComputeQuota": ("sagemaker", "CreateComputeQuota"),
}
# Properties that CloudFormation itself acts on, or sends in another request than the one that creates the resource.
OTHER_REQUESTS = {
    "AWS::APS::Workspace": {"AlertManagerDefinition"},
    "AWS::CodePipeline::Pipeline": {"RestartExecutionOnUpdate"},
    "AWS::EC2::VPCEndpoint": {"Tags"},
    "AWS::ECR::Repository": {"EmptyOnDelete", "LifecyclePolicy"},
    "AWS::EKS::AccessEntry": {"AccessPolicies"},
    "AWS::IAM::Role": {"ManagedPolicyArns", "Policies"},
    "AWS::KMS::Key": {"EnableKeyRotation"},
}
# Names that CloudFormation makes up where the template has none.
GENERATED = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CodeBuild::Project": "Name",
    "AWS::EC2::LaunchTemplate": "LaunchTemplateName",
    "AWS::EKS::Nodegroup": "NodegroupName",
    "AWS::IAM::Role": "RoleName",
}
# Properties that CloudFormation spells or nests in another way than the API.
SPELLED = {
    "AWS::APS::RuleGroupsNamespace": lambda it: {
        **_without(it, "Workspace", "Data"),
        "WorkspaceId": it["Workspace"].rpartition("/")[2],
        "Data": it["Data"].encode(),
    },
    "AWS::APS::Scraper": lambda it: {
        **_without(it, "ScrapeConfiguration", "Tags"),
        "ScrapeConfiguration": {name: text.encode() for name, text in it["ScrapeConfiguration"].items()},
        **_tag_map(it),
    },
    "AWS::CodeBuild::Project": lambda it: {
        **it,
        "Source": {**_without(it["Source"], "BuildSpec"), "Buildspec": it["Source"]["BuildSpec"]},
    },
    "AWS::EC2::FlowLog": lambda it: {**_without(it, "ResourceId"), "ResourceIds": [it["ResourceId"]]},
    "AWS::EKS::Addon": lambda it: {**_without(it, "Tags"), **_tag_map(it)},
    "AWS::EKS::Cluster": lambda it: {**it, **_logging(it)},
    "AWS::KMS::Key": lambda it: {**_without(it, "KeyPolicy"), "Policy": it["KeyPolicy"]},
    "AWS::CodePipeline::Pipeline": lambda it: {"Pipeline": _without(it, "Tags"), **_only(it, "Tags")},
}


def request(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Return the request that creates a resource. Properties that the API does not have keep their names."""
    service, operation = REQUESTS[kind]
    names = {GENERATED[kind]: "stack-resource-0123456789AB"} if kind in GENERATED else {}
    sent = names | _without(properties, *OTHER_REQUESTS.get(kind, ()))
    shape = service_model(service).operation_model(operation).input_shape
    made: dict[str, Any] = _renamed(SPELLED.get(kind, dict)(sent), shape)
    return made


def problems(kind: str, properties: dict[str, Any]) -> list[str]:
    """Return what the model of the API has against a resource's properties, one line per problem."""
    service, operation = REQUESTS[kind]
    shape = service_model(service).operation_model(operation).input_shape
    return shape_problems(request(kind, properties), shape)


def _renamed(value: Any, shape: Any) -> Any:
    """Return the value with the names of the API's members, and policies as the text that APIs take."""
    if shape.type_name == "string" and isinstance(value, dict):
        return json.dumps(value)
    if shape.type_name == "structure" and isinstance(value, dict):
        names = {f"{name[0].upper()}{name[1:]}": name for name in shape.members}
        known = {key: names[key] for key in value if key in names}
        return {
            known.get(key, key): _renamed(inner, shape.members[known[key]]) if key in known else inner
            for key, inner in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_renamed(inner, shape.member) for inner in value]
    return _as(shape.type_name, value)


def _as(type_name: str, value: Any) -> Any:
    """Return a scalar in the API's type: CloudFormation takes "500" for 500 and "true" for true."""
    if isinstance(value, str) and type_name in ("integer", "long") and value.lstrip("-").isdigit():
        return int(value)
    if isinstance(value, str) and type_name == "boolean" and value in ("true", "false"):
        return value == "true"
    return value


def _tag_map(properties: dict[str, Any]) -> dict[str, Any]:
    return {"Tags": {tag["Key"]: tag["Value"] for tag in properties["Tags"]}} if "Tags" in properties else {}


def _logging(cluster: dict[str, Any]) -> dict[str, Any]:
    if "Logging" not in cluster:
        return {}
    kinds = [each["Type"] for each in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]]
    return {"Logging": {"ClusterLogging": [{"Types": kinds, "Enabled": True}]}}


def _without(properties: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in names}


def _only(properties: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key in names}
