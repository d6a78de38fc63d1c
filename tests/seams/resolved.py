"""Templates as CloudFormation deploys them: every intrinsic function replaced by a value of the form that AWS gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from emulator.templates.intrinsics import Scope, resolve
from tests.seams.shapes import platforms
from tests.seams.stacks import stacks_of
from tests.synthesis import Template

ACCOUNT = "111122223333"
# What Ref and Fn::GetAtt return, from "Return values" of each type's page in
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/ and the ARN formats in
# https://docs.aws.amazon.com/service-authorization/latest/reference/ (read 2026-11-22). `{name}` is the resource's
# own name if it has one, and otherwise its logical ID.
VALUES = {
    # https://docs.aws.amazon.com/signer/latest/developerguide/signing-profiles.html (read 2026-11-23)
    ("AWS::Signer::SigningProfile", "Arn"): "arn:aws:signer:{region}:{account}:/signing-profiles/{name}",
    ("AWS::APS::Workspace", "Arn"): "arn:aws:aps:{region}:{account}:workspace/ws-{hex}",
    ("AWS::APS::Workspace", "WorkspaceId"): "ws-{hex}",
    ("AWS::CloudFormation::WaitCondition", "Data"): '{{"{name}":"sha256:{hex}"}}',
    (
        "AWS::CloudFormation::WaitConditionHandle",
        "Ref",
    ): "https://cloudformation-waitcondition-{region}.s3.amazonaws.com/{hex}",
    ("AWS::CloudWatch::Alarm", "Arn"): "arn:aws:cloudwatch:{region}:{account}:alarm:{name}",
    ("AWS::CodeBuild::Project", "Arn"): "arn:aws:codebuild:{region}:{account}:project/{name}",
    ("AWS::EC2::EIP", "AllocationId"): "eipalloc-{hex}",
    ("AWS::EC2::InternetGateway", "Ref"): "igw-{hex}",
    ("AWS::EC2::LaunchTemplate", "LatestVersionNumber"): "1",
    ("AWS::EC2::LaunchTemplate", "Ref"): "lt-{hex}",
    ("AWS::EC2::NatGateway", "Ref"): "nat-{hex}",
    ("AWS::EC2::RouteTable", "Ref"): "rtb-{hex}",
    ("AWS::EC2::SecurityGroup", "GroupId"): "sg-{hex}",
    ("AWS::EC2::Subnet", "Ref"): "subnet-{hex}",
    ("AWS::EC2::VPC", "Ref"): "vpc-{hex}",
    ("AWS::ECR::Repository", "Arn"): "arn:aws:ecr:{region}:{account}:repository/{name}",
    ("AWS::EKS::Cluster", "Arn"): "arn:aws:eks:{region}:{account}:cluster/{name}",
    ("AWS::EKS::Cluster", "CertificateAuthorityData"): "Y2VydGlmaWNhdGU=",
    ("AWS::EKS::Cluster", "ClusterSecurityGroupId"): "sg-{hex}",
    ("AWS::EKS::Cluster", "Endpoint"): "https://{hex}.gr7.{region}.eks.amazonaws.com",
    ("AWS::EKS::Nodegroup", "Arn"): "arn:aws:eks:{region}:{account}:nodegroup/cluster/{name}/{hex}",
    ("AWS::EKS::Nodegroup", "NodegroupName"): "{name}",
    ("AWS::FSx::FileSystem", "DNSName"): "fs-{hex}.fsx.{region}.amazonaws.com",
    ("AWS::FSx::FileSystem", "LustreMountName"): "abcdefgh",
    ("AWS::FSx::FileSystem", "RootVolumeId"): "fsvol-{hex}",
    ("AWS::FSx::FileSystem", "Ref"): "fs-{hex}",
    ("AWS::Events::Rule", "Arn"): "arn:aws:events:{region}:{account}:rule/{name}",
    ("AWS::IAM::Role", "Arn"): "arn:aws:iam::{account}:role/{name}",
    ("AWS::KMS::Key", "Arn"): "arn:aws:kms:{region}:{account}:key/00000000-0000-4000-8000-{hex12}",
    ("AWS::Logs::LogGroup", "Arn"): "arn:aws:logs:{region}:{account}:log-group:{name}:*",
    ("AWS::S3::Bucket", "Arn"): "arn:aws:s3:::{name}",
    ("AWS::SQS::Queue", "Arn"): "arn:aws:sqs:{region}:{account}:{name}",
    ("AWS::SQS::Queue", "Ref"): "https://sqs.{region}.amazonaws.com/{account}/{name}",
    ("AWS::SNS::Topic", "Ref"): "arn:aws:sns:{region}:{account}:{name}",
    ("AWS::SageMaker::Cluster", "ClusterArn"): "arn:aws:sagemaker:{region}:{account}:cluster/{hex12}",
}
# The property that holds a resource's own name, first the most specific one.
NAMES = ("BucketName", "RepositoryName", "RoleName", "LogGroupName", "ClusterName", "AlarmName", "Name")


@dataclass(frozen=True)
class Deployed:
    """A platform's resources with resolved properties, by the stack's role and the logical ID.

    `types` has the type of each resource, `region` the platform's Region, and `arns` the ARNs of the resources for
    which VALUES has the form.
    """

    region: str
    resources: dict[str, dict[str, dict[str, Any]]]
    types: dict[str, dict[str, str]]
    arns: tuple[str, ...] = ()

    def of_type(self, kind: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the properties of all resources of one type, by role and logical ID."""
        return {
            (role, name): properties
            for role, each in self.resources.items()
            for name, properties in each.items()
            if self.types[role][name] == kind
        }


def deployed(names: Iterable[str]) -> dict[str, Deployed]:
    """Return the resources of platforms as CloudFormation would create them, by the platform's name."""
    return {name: deployed_of(name) for name in names}


@cache
def deployed_of(name: str) -> Deployed:
    """Return the resources of one example or shape. Copy what you change."""
    return deploy(stacks_of(name), platforms()[name].region)


def deploy(templates: Mapping[str, Template], region: str) -> Deployed:
    """Resolve a platform's templates."""
    exports = {
        output["Export"]["Name"]: (role, output["Value"])
        for role, template in templates.items()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    }

    def scope(role: str) -> Scope:
        resources = templates[role]["Resources"]

        def attribute(name: str, asked: str) -> Any:
            return _value(resources, name, asked, region, role, resolver)

        def import_value(name: str) -> str:
            owner, value = exports[name]
            return str(resolve(value, scope(owner)))

        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws",
            "AWS::Region": region,
            "AWS::StackName": role,
            "AWS::URLSuffix": "amazonaws.com",
        }
        resolver = Scope(
            parameters=pseudo,
            mappings={},
            conditions={},
            resource_ids=frozenset(resources),
            ref=lambda name: attribute(name, "Ref"),
            attribute=attribute,
            import_value=import_value,
            availability_zones=lambda region: [f"{region}{letter}" for letter in "abc"],
            ssm_parameter=lambda name: name,
        )
        return resolver

    return Deployed(
        region,
        {
            role: {name: resolve(each.get("Properties", {}), scope(role)) for name, each in made["Resources"].items()}
            for role, made in templates.items()
        },
        {role: {name: each["Type"] for name, each in made["Resources"].items()} for role, made in templates.items()},
        tuple(
            str(scope(role).attribute(name, attribute))
            for role, made in templates.items()
            for name, each in made["Resources"].items()
            for attribute in ("Arn", "ClusterArn")
            if (each["Type"], attribute) in VALUES
        ),
    )


def _value(resources: dict[str, Any], name: str, attribute: str, region: str, role: str, scope: Scope) -> Any:
    resource = resources[name]
    properties = resource.get("Properties", {})
    own = next((resolve(properties[key], scope) for key in NAMES if key in properties), name)
    # IDs differ between resources, and are the same each time.
    digits = sha256(f"{role}/{name}".encode()).hexdigest()
    form = VALUES.get((resource["Type"], attribute), "{name}" if attribute == "Ref" else None)
    if form is None:
        raise KeyError(f"{resource['Type']}.{attribute}: look up what Fn::GetAtt returns, and add it to VALUES")
    return form.format(name=own, region=region, account=ACCOUNT, hex=digits[:17], hex12=digits[:12])
