"""A small CDK app with what the platform is made of: two stacks, the second built on the first.

The environment variable VALUE is what the SSM parameter holds; INTERFACES the launch template's network interfaces;
MISTAKE a property that does not exist.
"""

import os

import aws_cdk as cdk
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm


class Network(cdk.Stack):
    """A VPC, the EFA security group with its rules to itself, and the data bucket, which outlives the stack."""

    def __init__(self, app: cdk.App, name: str) -> None:
        super().__init__(app, name)
        self.vpc = ec2.Vpc(self, "Vpc", max_azs=2, nat_gateways=1)
        self.efa = ec2.CfnSecurityGroup(self, "Efa", group_description="EFA", vpc_id=self.vpc.vpc_id)
        own = self.efa.attr_group_id
        ec2.CfnSecurityGroupIngress(self, "In", group_id=own, ip_protocol="-1", source_security_group_id=own)
        ec2.CfnSecurityGroupEgress(self, "Out", group_id=own, ip_protocol="-1", destination_security_group_id=own)
        self.bucket = s3.Bucket(self, "Data", enforce_ssl=True, versioned=True)
        if os.environ.get("MISTAKE"):
            self.efa.add_property_override(os.environ["MISTAKE"], "x")


class Cluster(cdk.Stack):
    """A file system, a cluster, how its nodes start, and the delivery that reports back."""

    def __init__(self, app: cdk.App, name: str, network: Network) -> None:
        super().__init__(app, name)
        subnets = [subnet.subnet_id for subnet in network.vpc.private_subnets]
        fsx.CfnFileSystem(
            self,
            "Lustre",
            file_system_type="LUSTRE",
            storage_capacity=4800,
            subnet_ids=subnets[:1],
            security_group_ids=[network.efa.attr_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2", per_unit_storage_throughput=500, efa_enabled=True
            ),
        )
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("eks.amazonaws.com"))
        eks.CfnCluster(
            self,
            "Eks",
            role_arn=role.role_arn,
            resources_vpc_config=eks.CfnCluster.ResourcesVpcConfigProperty(subnet_ids=subnets),
        )
        interfaces = [
            ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                device_index=min(card, 1), network_card_index=card, interface_type="efa-only" if card else "efa"
            )
            for card in range(int(os.environ.get("INTERFACES", "32")))
        ]
        data = ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(network_interfaces=interfaces)
        template = ec2.CfnLaunchTemplate(self, "Template", launch_template_data=data)
        handle = cdk.CfnWaitConditionHandle(self, "Handle")
        built = cdk.CfnWaitCondition(self, "Built", handle=handle.ref, timeout="3600", count=1)
        self._pipeline(network.bucket)
        value = f"{os.environ.get('VALUE', 'one')} {network.bucket.bucket_name} {template.attr_latest_version_number}"
        parameter = ssm.StringParameter(self, "HandOff", parameter_name="/app/hand-off", string_value=value)
        parameter.node.add_dependency(built)

    def _pipeline(self, bucket: s3.Bucket) -> None:
        role = iam.Role(self, "PipelineRole", assumed_by=iam.ServicePrincipal("codepipeline.amazonaws.com"))
        pipeline = codepipeline.CfnPipeline
        kind = {"provider": "S3", "version": "1", "owner": "AWS"}
        actions = {
            category: pipeline.ActionDeclarationProperty(
                name=category,
                action_type_id=pipeline.ActionTypeIdProperty(category=category, **kind),
                configuration=configuration,
                output_artifacts=[{"name": "a"}] if category == "Source" else None,
                input_artifacts=[{"name": "a"}] if category == "Deploy" else None,
            )
            for category, configuration in (
                ("Source", {"S3Bucket": bucket.bucket_name, "S3ObjectKey": "a.zip"}),
                ("Deploy", {"BucketName": bucket.bucket_name, "Extract": "true"}),
            )
        }
        codepipeline.CfnPipeline(
            self,
            "Pipeline",
            role_arn=role.role_arn,
            artifact_store=pipeline.ArtifactStoreProperty(type="S3", location=bucket.bucket_name),
            stages=[pipeline.StageDeclarationProperty(name=name, actions=[item]) for name, item in actions.items()],
        )


app = cdk.App()
Cluster(app, "app-cluster", Network(app, "app-network"))
app.synth()
