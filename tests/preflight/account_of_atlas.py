"""An emulated account that has all that the platform `atlas` needs, and ways to break it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import yaml

from emulator import Emulator
from tests.owners_vpc import make_vpc
from trainway.preflight.checks.service_linked_roles import OF_EKS, OF_FSX, OF_SPOT
from trainway.preflight.deployer import execution_role
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.addons import addon_names
from trainway.spec.kubernetes.ami_releases import groups_with_releases, parameter
from trainway.spec.loader import load_platform

ACCOUNT, REGION, NAME = "123456789012", "us-west-2", "atlas"
WORKSPACE = "T0123ABCD"
TENANT, TEAM = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000B"
RESERVATION, BLOCK = "cr-0123456789abcdef0", "cr-0fedcba9876543210"
ROOT = f"arn:aws:iam::{ACCOUNT}:root"
CONFIG = json.dumps({"architecture": "amd64", "config": {"Labels": {"trainway.variant": "cuda"}}})
NOON = datetime.now(UTC).replace(hour=11, minute=30, second=0, microsecond=0)
BLOCK_TIMES = {"start": NOON - timedelta(days=2), "end": NOON + timedelta(days=5)}
KUBERNETES = "1.34"
LINKED = OF_EKS | OF_SPOT | OF_FSX
POLICY = [
    {"Effect": "Allow", "Principal": {"AWS": ROOT}, "Action": "kms:*", "Resource": "*"},
    {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
        "Resource": "*",
        "Condition": {"StringLike": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/*FSx*"}},
    },
]


@dataclass
class AtlasAccount:
    """The account, with a client by the name of a service, and what it has by name."""

    emulator: Emulator
    client: Callable[[str], Any]
    file: Path
    ids: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def reservations(self, **changes: Any) -> list[dict[str, Any]]:
        """Return the reservation and the block of the account, with changes of the reservation."""
        common = {"AvailabilityZoneId": "usw2-az2", "InstancePlatform": "Linux/UNIX", "InstanceType": "p5.48xlarge"}
        counts = {"TotalInstanceCount": 2, "AvailableInstanceCount": 2, "State": "active"}
        block = {"ReservationType": "capacity-block", "CapacityReservationId": BLOCK}
        times = {"StartDate": BLOCK_TIMES["start"].isoformat(), "EndDate": BLOCK_TIMES["end"].isoformat()}
        reservation = {"ReservationType": "default", "CapacityReservationId": RESERVATION}
        return [common | counts | reservation | changes, common | counts | block | times]

    def publish(
        self, file: Path | None = None, *, version: str = "", left_out: str = "", parameters: bool = True
    ) -> None:
        """Publish what a file, by default the account's, needs: the AMIs' releases, and the add-ons but one.

        `version` is a Kubernetes version that is offered in the place of the file's.
        """
        platform, catalogue = load_platform(file or self.file), load_catalogue()
        wanted = platform.kubernetes_or_default.version
        version = version or wanted
        support = (NOON + timedelta(days=400)).timestamp()
        compatible = [{"clusterVersion": wanted, "defaultVersion": True}]
        names = {parameter(wanted, instance) for _, instance in groups_with_releases(platform, catalogue)}
        self.emulator.publish(
            cluster_versions=[{"clusterVersion": version, "endOfStandardSupportDate": support}],
            addons=[
                {
                    "addonName": name,
                    "addonVersions": [{"addonVersion": "v1.2.3-eksbuild.1", "compatibilities": compatible}],
                }
                for name in addon_names(platform)
                if name != left_out
            ],
            parameters=dict.fromkeys(names, "1.34.1-20261112") if parameters else None,
        )


def make_account(emulator: Emulator, file: Path) -> AtlasAccount:
    """Return an account that has all that its platform file names."""
    made: dict[str, Any] = {}
    session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=REGION)
    create: Any = session.client

    def client(service: str) -> Any:
        if service not in made:
            made[service] = create(service, endpoint_url=emulator.endpoint)
        return made[service]

    account = AtlasAccount(emulator, client, file)
    _people(account)
    _network(account)
    _keys_and_secrets(account)
    _image(account)
    file.write_text(yaml.safe_dump(_platform(account)), encoding="utf-8")
    account.publish()
    emulator.hold(capacity_reservations=account.reservations(), layers={_digest(CONFIG): CONFIG})
    workspace = {"SlackTeamId": WORKSPACE, "SlackTeamName": "lab"}
    emulator.hold(slack_workspaces=[workspace], microsoft_teams=[{"TenantId": TENANT.upper(), "TeamId": TEAM}])
    client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="25", Type="String")
    location = {"LocationConstraint": REGION}
    client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}", CreateBucketConfiguration=location)
    client("budgets").create_budget(
        AccountId=ACCOUNT,
        Budget={
            "BudgetName": "monthly",
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": "100000", "Unit": "USD"},
        },
        NotificationsWithSubscribers=[
            {
                "Notification": {
                    "NotificationType": "ACTUAL",
                    "ComparisonOperator": "GREATER_THAN",
                    "Threshold": 80,
                },
                "Subscribers": [{"SubscriptionType": "EMAIL", "Address": "costs@example.com"}],
            }
        ],
    )
    return account


def _people(account: AtlasAccount) -> None:
    iam = account.client("iam")
    administrator = "arn:aws:iam::aws:policy/AdministratorAccess"
    iam.create_user(UserName="deployer")
    iam.attach_user_policy(UserName="deployer", PolicyArn=administrator)
    key = iam.create_access_key(UserName="deployer")["AccessKey"]
    account.environment = account.emulator.environment() | {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    for arn in (execution_role("aws", ACCOUNT, REGION), f"arn:aws:iam::{ACCOUNT}:role/Admin"):
        iam.create_role(RoleName=arn.rpartition("/")[2], AssumeRolePolicyDocument=trust)
        iam.attach_role_policy(RoleName=arn.rpartition("/")[2], PolicyArn=administrator)
    for role, service in LINKED.items():
        iam.create_role(RoleName=role, Path=f"/aws-service-role/{service}/", AssumeRolePolicyDocument=trust)


def _network(account: AtlasAccount) -> None:
    ec2 = account.client("ec2")
    account.ids |= make_vpc(ec2)
    vpc, table = account.ids["vpc"], account.ids["private"]
    zones = {each["ZoneId"]: each["ZoneName"] for each in ec2.describe_availability_zones()["AvailabilityZones"]}
    small = ec2.create_subnet(VpcId=vpc, CidrBlock="10.20.240.0/25", AvailabilityZone=zones["usw2-az2"])
    account.ids["train"] = small["Subnet"]["SubnetId"]
    gateway = ec2.create_nat_gateway(SubnetId=account.ids["public"])["NatGateway"]["NatGatewayId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
    for name in ("train", "cluster-0", "cluster-1"):
        ec2.associate_route_table(RouteTableId=table, SubnetId=account.ids[name])
    group = account.ids["group"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
    system = account.client("fsx").create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[account.ids["cluster-0"]]
    )["FileSystem"]
    account.ids["file system"], account.ids["dns"] = system["FileSystemId"], system["DNSName"]
    image = ec2.register_image(Name="nodes", Architecture="x86_64", RootDeviceName="/dev/xvda")
    account.ids["ami"] = image["ImageId"]


def _keys_and_secrets(account: AtlasAccount) -> None:
    policy = json.dumps({"Version": "2012-10-17", "Statement": POLICY})
    kind = {"KeyUsage": "ENCRYPT_DECRYPT", "KeySpec": "SYMMETRIC_DEFAULT"}
    key = account.client("kms").create_key(Policy=policy, **kind)["KeyMetadata"]
    account.ids["key"], account.ids["key id"] = key["Arn"], key["KeyId"]
    secret = account.client("secretsmanager").create_secret(Name="hugging-face", SecretString="x")
    account.ids["secret"] = secret["ARN"]


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _image(account: AtlasAccount) -> None:
    ecr = account.client("ecr")
    ecr.create_repository(repositoryName="jobs")
    kind = "application/vnd.oci.image.manifest.v1+json"
    config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": _digest(CONFIG), "size": len(CONFIG)}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []})
    put = ecr.put_image(repositoryName="jobs", imageManifest=manifest, imageManifestMediaType=kind, imageTag="1")
    account.ids["config"] = _digest(CONFIG)
    account.ids["digest"] = put["image"]["imageId"]["imageDigest"]


def _platform(account: AtlasAccount) -> dict[str, Any]:
    ids, ec2 = account.ids, account.client("ec2")
    block = {"capacity_block": BLOCK} | {name: f"{at:%Y-%m-%dT%H:%MZ}" for name, at in BLOCK_TIMES.items()}
    p5 = {"instance_type": "p5.48xlarge", "count": 1, "max_pods": 16}
    named = {"nodes-train": "train", "cluster-0": "cluster-0", "cluster-1": "cluster-1"}
    real = {
        each["SubnetId"]: each
        for each in ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [ids["vpc"]]}])["Subnets"]
    }
    adopted = {
        name: {
            "id": ids[ours],
            "zone": real[ids[ours]]["AvailabilityZoneId"],
            "cidr": real[ids[ours]]["CidrBlock"],
            "free": real[ids[ours]]["AvailableIpAddressCount"],
        }
        for name, ours in named.items()
    }
    return {
        "name": NAME,
        "region": REGION,
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
        "node_groups": [
            {"name": "train", **p5, "capacity": {"reservation": RESERVATION}},
            {"name": "block", **p5, "capacity": block, "image_id": ids["ami"]},
            {"name": "idle", **p5, "capacity": "spot"},
        ],
        "network": {
            "cidr": "10.20.128.0/18",
            "existing": {
                "vpc_id": ids["vpc"],
                "cidrs": ["10.20.0.0/16", "10.21.0.0/16"],
                "taken": sorted(each["CidrBlock"] for each in real.values()),
                "route_table_id": ids["private"],
                "endpoints": ["s3"],
                "subnets": adopted,
                "security_group": {"id": ids["group"], "from_itself": True, "to_itself": True},
            },
        },
        "storage": {
            "bucket": {"name": "atlas-corpora", "key": ids["key"]},
            "lustre": {
                "existing": {
                    "file_system_id": ids["file system"],
                    "dns_name": ids["dns"],
                    "mount_name": "abcdefgh",
                    "capacity_gib": 1200,
                    "security_group_id": ids["group"],
                }
            },
        },
        "image": {"uri": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/jobs@{ids['digest']}"},
        "secrets": [{"secret": ids["secret"]}],
        "observability": {
            "slack": {"workspace": WORKSPACE, "channel": "C0123ABCD"},
            "microsoft_teams": {"tenant": TENANT, "team": TEAM, "channel": "19%3a0123abcd%40thread.tacv2"},
        },
        "kubernetes": {"version": KUBERNETES, "admins": [f"arn:aws:iam::{ACCOUNT}:role/Admin"]},
    }
