"""What a template made is there when the service's own API is asked."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

Client = Callable[[str], Any]
SUBNET_ZONE = "usw2-az2"


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def ref(logical_id: str) -> dict[str, str]:
    return {"Ref": logical_id}


def get_att(logical_id: str, name: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [logical_id, name]}


NETWORK = {
    "Vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16", EnableDnsHostnames=True),
    "More": resource("AWS::EC2::VPCCidrBlock", VpcId=ref("Vpc"), CidrBlock="10.1.0.0/16"),
    "Subnet": {
        **resource("AWS::EC2::Subnet", VpcId=ref("Vpc"), CidrBlock="10.1.0.0/24", AvailabilityZoneId=SUBNET_ZONE),
        "DependsOn": "More",
    },
    "Other": resource("AWS::EC2::Subnet", VpcId=ref("Vpc"), CidrBlock="10.0.0.0/24", AvailabilityZone="us-west-2a"),
    "Group": resource(
        "AWS::EC2::SecurityGroup",
        GroupDescription="EFA",
        VpcId=ref("Vpc"),
        SecurityGroupEgress=[{"IpProtocol": "icmp", "FromPort": 252, "ToPort": 86, "CidrIp": "255.255.255.255/32"}],
    ),
    "In": resource(
        "AWS::EC2::SecurityGroupIngress", GroupId=ref("Group"), IpProtocol="-1", SourceSecurityGroupId=ref("Group")
    ),
    "Out": resource(
        "AWS::EC2::SecurityGroupEgress", GroupId=ref("Group"), IpProtocol="-1", DestinationSecurityGroupId=ref("Group")
    ),
}


def test_buckets_are_written_read_and_multipart_uploaded(stack: Any, client: Client) -> None:
    stack.deploy(
        {
            "Data": resource(
                "AWS::S3::Bucket",
                VersioningConfiguration={"Status": "Enabled"},
                BucketEncryption={
                    "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
                },
                PublicAccessBlockConfiguration={"BlockPublicAcls": True, "RestrictPublicBuckets": True},
                LifecycleConfiguration={
                    "Rules": [{"Id": "old", "Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": 30}}]
                },
                Tags=[{"Key": "team", "Value": "research"}],
            ),
            "Policy": resource(
                "AWS::S3::BucketPolicy",
                Bucket=ref("Data"),
                PolicyDocument={
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": "*",
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                },
            ),
        }
    )
    s3, bucket = client("s3"), {"Bucket": stack.physical_id("Data")}
    s3.put_object(**bucket, Key="a/b", Body=b"tokens")
    assert s3.get_object(**bucket, Key="a/b")["Body"].read() == b"tokens"

    upload = {**bucket, "Key": "big", "UploadId": s3.create_multipart_upload(**bucket, Key="big")["UploadId"]}
    sizes = [5 * 1024**2, 3]
    parts = [s3.upload_part(**upload, PartNumber=n, Body=b"x" * size) for n, size in enumerate(sizes, start=1)]
    done = [{"PartNumber": number, "ETag": part["ETag"]} for number, part in enumerate(parts, start=1)]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": done})
    assert s3.head_object(**bucket, Key="big")["ContentLength"] == sum(sizes)

    assert s3.get_bucket_versioning(**bucket)["Status"] == "Enabled"
    assert (
        s3.get_bucket_lifecycle_configuration(**bucket)["Rules"][0]["NoncurrentVersionExpiration"]["NoncurrentDays"]
        == 30
    )
    assert s3.get_public_access_block(**bucket)["PublicAccessBlockConfiguration"]["BlockPublicAcls"] is True
    assert s3.get_bucket_tagging(**bucket)["TagSet"] == [{"Key": "team", "Value": "research"}]


def test_the_security_group_may_talk_to_itself_both_ways(stack: Any, client: Client) -> None:
    stack.deploy(NETWORK)
    group = client("ec2").describe_security_groups(GroupIds=[stack.physical_id("Group")])["SecurityGroups"][0]
    for permissions in (group["IpPermissions"], group["IpPermissionsEgress"]):
        own = [pair["GroupId"] for rule in permissions for pair in rule["UserIdGroupPairs"]]
        assert own == [group["GroupId"]]
    everywhere = [item["CidrIp"] for rule in group["IpPermissionsEgress"] for item in rule["IpRanges"]]
    assert everywhere == ["255.255.255.255/32"]  # EC2's "allow all" is gone


def test_a_subnet_is_in_the_zone_with_that_id_and_the_network_goes_away_again(stack: Any, client: Client) -> None:
    stack.deploy(
        NETWORK
        | {
            "Gateway": resource("AWS::EC2::InternetGateway"),
            "Attached": resource("AWS::EC2::VPCGatewayAttachment", VpcId=ref("Vpc"), InternetGatewayId=ref("Gateway")),
            "Table": resource("AWS::EC2::RouteTable", VpcId=ref("Vpc")),
            "Uses": resource("AWS::EC2::SubnetRouteTableAssociation", RouteTableId=ref("Table"), SubnetId=ref("Other")),
            "Address": resource("AWS::EC2::EIP", Domain="vpc"),
            "Nat": resource(
                "AWS::EC2::NatGateway", SubnetId=ref("Other"), AllocationId=get_att("Address", "AllocationId")
            ),
            "Route": resource(
                "AWS::EC2::Route", RouteTableId=ref("Table"), DestinationCidrBlock="0.0.0.0/0", NatGatewayId=ref("Nat")
            ),
            "S3": resource(
                "AWS::EC2::VPCEndpoint",
                VpcId=ref("Vpc"),
                ServiceName="com.amazonaws.us-west-2.s3",
                RouteTableIds=[ref("Table")],
            ),
        }
    )
    ec2 = client("ec2")
    subnet = ec2.describe_subnets(SubnetIds=[stack.physical_id("Subnet")])["Subnets"][0]
    assert subnet["AvailabilityZoneId"] == SUBNET_ZONE
    table = ec2.describe_route_tables(RouteTableIds=[stack.physical_id("Table")])["RouteTables"][0]
    assert {route.get("NatGatewayId") for route in table["Routes"]} >= {stack.physical_id("Nat")}
    vpc = stack.physical_id("Vpc")
    assert stack.delete() == "DELETE_COMPLETE", stack.events("DELETE_FAILED")
    of_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
    assert ec2.describe_subnets(Filters=of_vpc)["Subnets"] == []
    assert ec2.describe_security_groups(Filters=of_vpc)["SecurityGroups"] == []
    assert ec2.describe_addresses()["Addresses"] == []


def test_a_launch_template_has_32_interfaces_and_an_update_is_a_new_version(stack: Any, client: Client) -> None:
    def template(volume_gib: int) -> dict[str, Any]:
        cards = [
            {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa-only" if card else "efa"}
            for card in range(32)
        ]
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": volume_gib}}
        data = {"NetworkInterfaces": cards, "BlockDeviceMappings": [disk]}
        return {"Template": resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=data)}

    latest = {"Latest": {"Value": get_att("Template", "LatestVersionNumber")}}
    stack.deploy(template(100), Outputs=latest)
    assert stack.outputs() == {"Latest": "1"}
    stack.deploy(template(200), Outputs=latest)
    assert stack.outputs() == {"Latest": "2"}
    versions = client("ec2").describe_launch_template_versions(LaunchTemplateId=stack.physical_id("Template"))
    data = {version["VersionNumber"]: version["LaunchTemplateData"] for version in versions["LaunchTemplateVersions"]}
    assert len(data[2]["NetworkInterfaces"]) == 32
    assert data[2]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 200


def test_eks_cluster_and_node_group(stack: Any, client: Client) -> None:
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}]}
    stack.deploy(
        NETWORK
        | {
            "Role": resource(
                "AWS::IAM::Role",
                AssumeRolePolicyDocument=trust,
                ManagedPolicyArns=["arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"],
            ),
            "Cluster": resource(
                "AWS::EKS::Cluster",
                RoleArn=get_att("Role", "Arn"),
                Version="1.33",
                ResourcesVpcConfig={"SubnetIds": [ref("Subnet"), ref("Other")]},
                Logging={"ClusterLogging": {"EnabledTypes": [{"Type": "api"}]}},
            ),
            "Nodes": resource(
                "AWS::EKS::Nodegroup",
                ClusterName=ref("Cluster"),
                NodeRole=get_att("Role", "Arn"),
                Subnets=[ref("Subnet")],
                ScalingConfig={"MinSize": 0, "DesiredSize": 0, "MaxSize": 8},
            ),
            "Cni": resource("AWS::EKS::Addon", ClusterName=ref("Cluster"), AddonName="vpc-cni"),
        }
    )
    name = stack.physical_id("Cluster")
    assert client("eks").describe_cluster(name=name)["cluster"]["version"] == "1.33"
    assert stack.physical_id("Nodes").startswith(f"{name}/")
    group = client("eks").describe_nodegroup(clusterName=name, nodegroupName=stack.physical_id("Nodes").split("/")[1])
    assert group["nodegroup"]["scalingConfig"]["maxSize"] == 8
    assert {item: stack.resources()[item]["depth"] for item in ("Nodes", "Cni")} == {
        "Nodes": "service",
        "Cni": "record",
    }
    assert stack.delete() == "DELETE_COMPLETE"
    assert name not in client("eks").list_clusters()["clusters"]


def test_a_node_group_is_scaled_and_labeled_in_place(stack: Any, client: Client) -> None:
    def nodes(maximum: int, labels: dict[str, str]) -> dict[str, Any]:
        return NETWORK | {
            "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument={}),
            "Cluster": resource(
                "AWS::EKS::Cluster",
                RoleArn=get_att("Role", "Arn"),
                ResourcesVpcConfig={"SubnetIds": [ref("Subnet"), ref("Other")]},
            ),
            "Nodes": resource(
                "AWS::EKS::Nodegroup",
                ClusterName=ref("Cluster"),
                NodeRole=get_att("Role", "Arn"),
                Subnets=[ref("Subnet")],
                ScalingConfig={"MinSize": 0, "DesiredSize": 0, "MaxSize": maximum},
                Labels=labels,
                Taints=[{"Key": "gpu", "Effect": "NO_SCHEDULE"}] if maximum == 8 else [],
            ),
        }

    stack.deploy(nodes(2, {"role": "data"}))
    before = stack.physical_id("Nodes")
    assert stack.deploy(nodes(8, {"role": "gpu", "zone": "a"})) == "UPDATE_COMPLETE"
    assert stack.physical_id("Nodes") == before
    cluster, name = before.split("/")
    group = client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    assert group["scalingConfig"]["maxSize"] == 8
    assert group["labels"] == {"role": "gpu", "zone": "a"}
    assert [taint["key"] for taint in group["taints"]] == ["gpu"]


def test_a_managed_policy_that_aws_does_not_have_is_refused(stack: Any) -> None:
    role = resource(
        "AWS::IAM::Role", AssumeRolePolicyDocument={}, ManagedPolicyArns=["arn:aws:iam::aws:policy/AmazonNoSuchPolicy"]
    )
    assert stack.deploy({"Role": role}) == "ROLLBACK_COMPLETE"
    assert "AmazonNoSuchPolicy" in stack.events("CREATE_FAILED")["Role"]


def test_a_file_system_and_what_stands_on_it(stack: Any, client: Client) -> None:
    stack.deploy(
        NETWORK
        | {
            "Lustre": resource(
                "AWS::FSx::FileSystem",
                FileSystemType="LUSTRE",
                StorageCapacity=4800,
                SubnetIds=[ref("Subnet")],
                SecurityGroupIds=[ref("Group")],
                LustreConfiguration={
                    "DeploymentType": "PERSISTENT_2",
                    "PerUnitStorageThroughput": 500,
                    "EfaEnabled": True,
                },
            ),
            "Import": resource(
                "AWS::FSx::DataRepositoryAssociation",
                FileSystemId=ref("Lustre"),
                FileSystemPath="/data",
                DataRepositoryPath="s3://corpus/",
            ),
        },
        Outputs={"Mount": {"Value": get_att("Lustre", "LustreMountName")}},
    )
    system = client("fsx").describe_file_systems(FileSystemIds=[stack.physical_id("Lustre")])["FileSystems"][0]
    assert (system["StorageCapacity"], system["LustreConfiguration"]["PerUnitStorageThroughput"]) == (4800, 500)
    assert len(stack.outputs()["Mount"]) == 8
    assert stack.resources()["Import"]["depth"] == "record"


def test_what_operates_the_platform(stack: Any, client: Client) -> None:
    trust = {"Version": "2012-10-17", "Statement": []}
    allow = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sns:Publish", "Resource": "*"}]}
    stack.deploy(
        {
            "Topic": resource("AWS::SNS::Topic"),
            "TopicPolicy": resource("AWS::SNS::TopicPolicy", Topics=[ref("Topic")], PolicyDocument=allow),
            "Mail": resource(
                "AWS::SNS::Subscription", TopicArn=ref("Topic"), Protocol="email", Endpoint="a@example.com"
            ),
            "Alarm": resource(
                "AWS::CloudWatch::Alarm",
                ComparisonOperator="LessThanThreshold",
                EvaluationPeriods=1,
                Namespace="AWS/FSx",
                MetricName="FreeDataStorageCapacity",
                Period=60,
                Statistic="Sum",
                Threshold=1,
                AlarmActions=[ref("Topic")],
            ),
            "Board": resource("AWS::CloudWatch::Dashboard", DashboardBody='{"widgets":[]}'),
            "Log": resource("AWS::Logs::LogGroup", RetentionInDays=30),
            "Queue": resource("AWS::SQS::Queue", VisibilityTimeout=45),
            "Key": resource("AWS::KMS::Key", KeyPolicy=allow, EnableKeyRotation=True),
            "Alias": resource("AWS::KMS::Alias", AliasName=f"alias/{stack.name}", TargetKeyId=ref("Key")),
            "Images": resource("AWS::ECR::Repository", ImageScanningConfiguration={"ScanOnPush": True}),
            "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument=trust),
            "Inline": resource("AWS::IAM::Policy", PolicyName="p", PolicyDocument=allow, Roles=[ref("Role")]),
            "Managed": resource("AWS::IAM::ManagedPolicy", PolicyDocument=allow, Roles=[ref("Role")]),
            "Profile": resource("AWS::IAM::InstanceProfile", Roles=[ref("Role")]),
            "Build": resource(
                "AWS::CodeBuild::Project",
                ServiceRole=get_att("Role", "Arn"),
                Source={"Type": "CODEPIPELINE", "BuildSpec": "{}"},
                Artifacts={"Type": "CODEPIPELINE"},
                Environment={
                    "Type": "LINUX_CONTAINER",
                    "ComputeType": "BUILD_GENERAL1_XLARGE",
                    "Image": "aws/codebuild/standard:7.0",
                },
            ),
        }
    )
    found = stack.resources()
    assert {item["depth"] for item in found.values()} == {"service"}
    role, topic = found["Role"]["physical_id"], found["Topic"]["physical_id"]
    assert client("iam").list_role_policies(RoleName=role)["PolicyNames"] == ["p"]
    attached = client("iam").list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert [item["PolicyArn"] for item in attached] == [found["Managed"]["physical_id"]]
    assert len(client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]) == 1
    alarm = client("cloudwatch").describe_alarms(AlarmNames=[found["Alarm"]["physical_id"]])["MetricAlarms"][0]
    assert alarm["AlarmActions"] == [topic]
    group = client("logs").describe_log_groups(logGroupNamePrefix=found["Log"]["physical_id"])["logGroups"][0]
    assert group["retentionInDays"] == 30
    queue = client("sqs").get_queue_attributes(QueueUrl=found["Queue"]["physical_id"], AttributeNames=["All"])
    assert queue["Attributes"]["VisibilityTimeout"] == "45"
    assert (
        client("kms").describe_key(KeyId=f"alias/{stack.name}")["KeyMetadata"]["KeyId"] == found["Key"]["physical_id"]
    )
    project = client("codebuild").batch_get_projects(names=[found["Build"]["physical_id"]])["projects"][0]
    assert project["source"]["buildspec"] == "{}"
    assert stack.delete() == "DELETE_COMPLETE"
    with pytest.raises(ClientError, match="NoSuchEntity"):
        client("iam").get_role(RoleName=role)


def test_any_role_can_be_assumed(client: Client) -> None:
    role = "arn:aws:iam::123456789012:role/cdk-hnb659fds-deploy-role-123456789012-us-west-2"
    credentials = client("sts").assume_role(RoleArn=role, RoleSessionName="cdk")["Credentials"]
    assert credentials["SessionToken"]


def test_an_operation_that_nothing_emulates_is_refused_at_once_by_name(client: Client) -> None:
    with pytest.raises(ClientError, match=r"NotEmulated.*lookup_events"):
        client("cloudtrail").lookup_events()
