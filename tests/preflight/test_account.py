"""One run reports everything that is wrong with an account, and nothing of an account that has all that is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.preflight.account_of_atlas import (
    ACCOUNT,
    BLOCK,
    BLOCK_TIMES,
    NAME,
    POLICY,
    REGION,
    RESERVATION,
    TEAM,
    TENANT,
    WORKSPACE,
    AtlasAccount,
    make_account,
)
from trainway.cli import app
from trainway.preflight.checks import CHECKS
from trainway.preflight.deployer import execution_role
from trainway.spec.facts.catalogue import load_catalogue

Break = Callable[[AtlasAccount], object]
EXECUTION = execution_role("aws", ACCOUNT, REGION).rpartition("/")[2]
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
P5_QUOTA = load_catalogue()["p5.48xlarge"].quota_codes
# What the checks that an eks platform does not have are tested by.
ELSEWHERE = {
    "training-plans": "test_hyperpod.py",
    "health-checks": "test_hyperpod.py",
    "credentials": "test_credentials.py",
    "existing-cluster": "test_existing_cluster.py",
}


def run(account: AtlasAccount, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit status of `trainway preflight`, and its findings."""
    ran = CliRunner().invoke(app, ["preflight", str(account.file), "--json", *options], env=account.environment)
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    document = json.loads(ran.stdout)
    assert document["exit_status"] == ran.exit_code
    return ran.exit_code, document["findings"]


def quota(code: str, value: float) -> dict[str, Any]:
    return {"ServiceCode": "ec2", "QuotaCode": code, "Value": value, "Adjustable": True}


def request(code: str, status: str, value: float) -> dict[str, Any]:
    asked = {"ServiceCode": "ec2", "QuotaCode": code, "Status": status, "DesiredValue": value}
    return asked | {"Created": "2026-11-20T09:00:00+00:00"} | ({"CaseId": "7"} if status == "CASE_OPENED" else {})


def p_quota() -> str:
    """Return the code of the quota on P instances on demand, which reservations count against."""
    return next(code for kind, code in P5_QUOTA.items() if kind.value == "on-demand")


def spot_quota() -> str:
    return next(code for kind, code in P5_QUOTA.items() if kind.value == "spot")


def no_addresses(account: AtlasAccount) -> None:
    for _ in range(100):
        account.client("ec2").create_network_interface(SubnetId=account.ids["train"])


def replaced_route(account: AtlasAccount) -> None:
    account.client("ec2").delete_route(RouteTableId=account.ids["private"], DestinationCidrBlock="0.0.0.0/0")


def refusing_acl(account: AtlasAccount) -> None:
    ec2 = account.client("ec2")
    (acl,) = ec2.describe_network_acls(Filters=[{"Name": "vpc-id", "Values": [account.ids["vpc"]]}])["NetworkAcls"]
    ec2.create_network_acl_entry(
        NetworkAclId=acl["NetworkAclId"],
        RuleNumber=90,
        Protocol="6",
        PortRange={"From": 40000, "To": 50000},
        CidrBlock="0.0.0.0/0",
        RuleAction="deny",
        Egress=False,
    )


def without_rule(account: AtlasAccount) -> None:
    group = account.ids["group"]
    rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    account.client("ec2").revoke_security_group_ingress(GroupId=group, IpPermissions=rule)


def without_endpoint(account: AtlasAccount) -> None:
    ec2 = account.client("ec2")
    found = ec2.describe_vpc_endpoints(Filters=[{"Name": "vpc-id", "Values": [account.ids["vpc"]]}])["VpcEndpoints"]
    ec2.delete_vpc_endpoints(VpcEndpointIds=[each["VpcEndpointId"] for each in found])


def narrow_role(account: AtlasAccount) -> None:
    account.client("iam").detach_role_policy(RoleName=EXECUTION, PolicyArn=ADMINISTRATOR)
    allowed = {"Effect": "Allow", "Action": ["ec2:*", "iam:*", "s3:*"], "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    account.client("iam").put_role_policy(RoleName=EXECUTION, PolicyName="narrow", PolicyDocument=document)


def forbid_roles(account: AtlasAccount) -> None:
    denied = {"Effect": "Deny", "Action": "sts:AssumeRole", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
    account.client("iam").put_user_policy(UserName="deployer", PolicyName="no", PolicyDocument=document)


def without_root(account: AtlasAccount) -> None:
    somebody = POLICY[0] | {"Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/Admin"}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [somebody]})
    account.client("kms").put_key_policy(KeyId=account.ids["key id"], PolicyName="default", Policy=document)


def without_parameters(account: AtlasAccount) -> None:
    ssm = account.client("ssm")
    names = [f"/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/{each}" for each in ("nvidia", "standard")]
    ssm.delete_parameters(Names=[f"{name}/recommended/release_version" for name in names])


def other_labels(account: AtlasAccount) -> None:
    (digest,) = account.ids["config"].split()
    config = {"architecture": "arm64", "config": {"Labels": {"trainway.variant": "neuron"}}}
    account.emulator.hold(layers={digest: json.dumps(config)})


def foreign_stack(account: AtlasAccount) -> None:
    template = json.dumps({"Resources": {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}})
    account.client("cloudformation").create_stack(StackName=f"{NAME}-network", TemplateBody=template)


def foreign_cluster(account: AtlasAccount) -> None:
    subnets = [account.ids["cluster-0"], account.ids["cluster-1"]]
    role = f"arn:aws:iam::{ACCOUNT}:role/Admin"
    account.client("eks").create_cluster(name=NAME, roleArn=role, resourcesVpcConfig={"subnetIds": subnets})


def late_block(account: AtlasAccount) -> None:
    reservation, block = account.reservations(AvailableInstanceCount=0)
    later = BLOCK_TIMES["end"] + timedelta(days=1)
    account.emulator.hold(capacity_reservations=[reservation, block | {"EndDate": later.isoformat()}])


def nothing_more(_account: AtlasAccount) -> None:
    """Break nothing: what comes before has broken this, too."""


def delete_ours(service: str, operation: str, **asked: Any) -> Break:
    return lambda account: getattr(account.client(service), operation)(
        **{name: account.ids.get(value, value) for name, value in asked.items()}
    )


# What is wrong, how it comes to be wrong, the check that finds it, and words of the finding and of the remedy.
BROKEN: dict[str, tuple[Break, str, str, str]] = {
    "a zone that the account has not": (
        lambda account: account.emulator.hold(zone_states={"usw2-az1": "absent", "usw2-az2": "impaired"}),
        "region", "has no zone usw2-az1", "write one of them",
    ),
    "a zone that is not available": (
        nothing_more, "region", "the zone usw2-az2 is impaired", "another zone",
    ),
    "bucket of the bootstrap gone": (
        delete_ours("s3", "delete_bucket", Bucket=f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"),
        "bootstrap", f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}", f"cdk bootstrap aws://{ACCOUNT}/{REGION}",
    ),
    "bootstrap too old": (
        lambda account: account.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="5", Overwrite=True
        ),
        "bootstrap", "has version 5", "cdk bootstrap",
    ),
    "role of CloudFormation too narrow": (narrow_role, "permissions", f"role {EXECUTION} may not", "--print-policy"),
    "caller may assume no role": (forbid_roles, "permissions", "user/deployer may not assume", "sts:AssumeRole"),
    "quotas too small": (
        lambda account: account.emulator.hold(quotas=[quota(p_quota(), 0), quota(spot_quota(), 191)]),
        "quotas", "All P5 Spot Instance Requests is 191", f"--quota-code {spot_quota()} --desired-value 192",
    ),
    "type not offered": (
        lambda account: account.emulator.hold(not_offered=["m7i.2xlarge"]),
        "offerings", "EC2 does not have m7i.2xlarge", "another instance type",
    ),
    "reservation in use, and block with another end": (
        late_block, "reservations", f"of the 2 instances of {RESERVATION}, 0 are free", RESERVATION,
    ),
    "block ends later": (
        nothing_more, "capacity-blocks", f"{BLOCK} has its end at", "write end:",
    ),
    "no free addresses": (no_addresses, "subnets", "free addresses", "larger subnet"),
    "subnet deleted": (
        delete_ours("ec2", "delete_subnet", SubnetId="cluster-1"), "subnets", "has no subnet", "trainway adopt",
    ),
    "no way out": (replaced_route, "routes", "has no route to 0.0.0.0/0", "NAT gateway"),
    "rule for EFA revoked": (without_rule, "security-groups", "everything from itself", "from_itself: false"),
    "names not resolved": (
        lambda account: account.client("ec2").modify_vpc_attribute(
            VpcId=account.ids["vpc"], EnableDnsHostnames={"Value": False}
        ),
        "vpc", "enableDnsHostnames", "--enable-dns-hostnames",
    ),
    "endpoint deleted": (without_endpoint, "vpc", "has no endpoint of s3", "remove it from `endpoints`"),
    "file system failed": (
        lambda account: account.emulator.hold(file_system_states={account.ids["file system"]: "FAILED"}),
        "file-systems", "is FAILED", "adopt another",
    ),
    "key disabled": (delete_ours("kms", "disable_key", KeyId="key id"), "keys", "is Disabled", "aws kms enable-key"),
    "key policy not left to IAM": (without_root, "keys", "does not leave the key to IAM", "kms:*"),
    "key policy without FSx": (nothing_more, "keys", "lets FSx use the key", "s3-server-side-encryption"),
    "no role for Spot": (
        delete_ours("iam", "delete_role", RoleName="AWSServiceRoleForEC2Spot"),
        "service-linked-roles", "AWSServiceRoleForEC2Spot", "--aws-service-name spot.amazonaws.com",
    ),
    "version and add-on not offered": (
        lambda account: account.publish(version="1.33", left_out="coredns", parameters=False),
        "kubernetes-version", "EKS does not offer Kubernetes 1.34", "write one of them",
    ),
    "add-on not offered": (nothing_more, "addons", "no add-on coredns", "another Kubernetes version"),
    "no AMI of EKS": (without_parameters, "machine-images", "EKS publishes no AMI for", "another Kubernetes version"),
    "own AMI gone": (
        delete_ours("ec2", "deregister_image", ImageId="ami"), "machine-images", "there is no AMI ami-", "this Region",
    ),
    "image for other nodes": (other_labels, "images", "the image is for neuron", "an image for cuda"),
    "processor of the image": (nothing_more, "images", "processors of arm64", "for x86_64"),
    "bucket of another account": (
        lambda account: account.emulator.hold(others_buckets=["atlas-corpora"]),
        "buckets", "the bucket atlas-corpora is not yours", "another name",
    ),
    "no budget": (
        delete_ours("budgets", "delete_budget", AccountId=ACCOUNT, BudgetName="monthly"),
        "budget", "has no budget", "the section `budget`",
    ),
    "secret deleted": (
        delete_ours("secretsmanager", "delete_secret", SecretId="secret"),
        "secrets", "hugging-face", "restore-secret",
    ),
    "workspace not authorized": (
        lambda account: account.emulator.hold(slack_workspaces=[]),
        "chat-channels", f"the Slack workspace {WORKSPACE} is not authorized", "configure a Slack client",
    ),
    "team of Microsoft Teams not authorized": (
        lambda account: account.emulator.hold(microsoft_teams=[{"TenantId": TENANT, "TeamId": TENANT}]),
        "chat-channels", f"the team {TEAM} of the tenant {TENANT} of Microsoft Teams is not authorized",
        "configure a Microsoft Teams client",
    ),
    "administrator gone": (
        lambda account: [
            account.client("iam").detach_role_policy(RoleName="Admin", PolicyArn=ADMINISTRATOR),
            account.client("iam").delete_role(RoleName="Admin"),
        ],
        "people", "there is no IAM role Admin", "aws iam list-roles",
    ),
    "a network ACL that refuses answers": (
        refusing_acl, "network-acls", "inbound rule 90 of acl-",
        "--ingress --protocol tcp --port-range From=1024,To=65535",
    ),
    "stack of somebody else": (foreign_stack, "stacks", f"another stack has the name {NAME}-network", "another `name`"),
    "cluster of somebody else": (foreign_cluster, "stacks", "an EKS cluster of the name atlas", "another `name`"),
}  # fmt: skip


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def account(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> AtlasAccount:
    return make_account(emulator, tmp_path_factory.mktemp("atlas") / "platform.yaml")


@pytest.fixture(scope="module")
def healthy(account: AtlasAccount) -> tuple[int, list[dict[str, Any]]]:
    """The findings before anything is broken."""
    return run(account, "--strict")


@pytest.fixture(scope="module")
def forbidden(account: AtlasAccount, healthy: object) -> tuple[int, list[dict[str, Any]]]:
    """The findings of a caller who may ask nothing but who they are."""
    assert healthy
    calls = [
        *("ec2:DescribeAvailabilityZones", "ec2:DescribeCapacityReservations", "ec2:DescribeSubnets"),
        "ec2:DescribeVpcs",
        *("ec2:DescribeInstanceTypeOfferings", "ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups"),
        *("iam:GetRole", "iam:SimulatePrincipalPolicy", "ssm:GetParameter", "ssm:GetParameters", "s3:HeadBucket"),
        *("service-quotas:GetServiceQuota", "kms:DescribeKey", "budgets:DescribeBudgets", "fsx:DescribeFileSystems"),
        *("eks:DescribeClusterVersions", "eks:DescribeAddonVersions", "ecr:DescribeImages"),
        *("cloudformation:DescribeStacks", "secretsmanager:DescribeSecret", "s3:ListBuckets"),
        *("chatbot:DescribeSlackWorkspaces", "chatbot:ListMicrosoftTeamsConfiguredTeams"),
    ]  # fmt: skip
    account.emulator.hold(denied=calls)
    try:
        return run(account)
    finally:
        account.emulator.hold(denied=[])


@pytest.fixture(scope="module")
def broken(account: AtlasAccount, healthy: object, forbidden: object) -> tuple[int, list[dict[str, Any]]]:
    """The findings of one run after everything was broken."""
    assert healthy and forbidden
    for breaks, *_ in BROKEN.values():
        breaks(account)
    return run(account)


def test_an_account_that_has_everything_is_told_nothing(healthy: tuple[int, list[dict[str, Any]]]) -> None:
    assert healthy == (0, [])


@pytest.mark.parametrize("name", BROKEN)
def test_one_run_finds_all_that_is_broken(name: str, broken: tuple[int, list[dict[str, Any]]]) -> None:
    _, check, what, fix = BROKEN[name]
    status, findings = broken
    assert status == 1
    of_check = [each for each in findings if each["check"] == check]
    assert [each for each in of_check if what in each["what"] and fix in each["fix"]], of_check


def test_nothing_else_is_found_in_the_broken_account(broken: tuple[int, list[dict[str, Any]]]) -> None:
    known = [(check, what) for _, check, what, _ in BROKEN.values()]
    also = [("quotas", "On-Demand P instances is 0")]
    others = [
        each
        for each in broken[1]
        if not any(each["check"] == check and what in each["what"] for check, what in (*known, *also))
    ]
    assert others == []


@pytest.mark.parametrize(
    ("requests", "fix"),
    [
        ([("PENDING", 192.0)], "wait until AWS decides the request for 192 of 2026-11-20"),
        ([("CASE_OPENED", 100.0)], "tell AWS in the request for 100 of 2026-11-20 (support case 7) that you need"),
        (
            [("PENDING", 100.0), ("CASE_OPENED", 500.0)],
            "AWS decides the request for 500 of 2026-11-20 (support case 7)",
        ),
        ([("DENIED", 192.0), ("APPROVED", 100.0), ("CASE_CLOSED", 500.0)], "--desired-value 192"),
    ],
)
def test_an_open_request_to_raise_a_quota_replaces_the_command_for_a_new_one(
    requests: list[tuple[str, float]], fix: str, account: AtlasAccount, broken: object
) -> None:
    assert broken
    account.emulator.hold(quota_requests=[request(spot_quota(), *each) for each in requests])
    others = [option for each in CHECKS if each.name != "quotas" for option in ("--skip", each.name)]
    status, findings = run(account, *others)
    account.emulator.hold(quota_requests=[])
    (found,) = [each for each in findings if "All P5 Spot Instance Requests is 191" in each["what"]]
    assert (status, found["level"]) == (1, "error"), "a deploy would fail before AWS has decided"
    assert fix in found["fix"]


def test_a_team_that_the_organization_has_disabled_is_told_with_its_reason(
    account: AtlasAccount, broken: object
) -> None:
    assert broken
    disabled = {"TenantId": TENANT, "TeamId": TEAM, "State": "DISABLED", "StateReason": "denied by o-0123"}
    account.emulator.hold(
        microsoft_teams=[disabled], slack_workspaces=[{"SlackTeamId": WORKSPACE, "SlackTeamName": "lab"}]
    )
    others = [option for each in CHECKS if each.name != "chat-channels" for option in ("--skip", each.name)]
    status, (found,) = run(account, *others)
    BROKEN["team of Microsoft Teams not authorized"][0](account)
    BROKEN["workspace not authorized"][0](account)
    assert (status, found["why"]) == (1, "denied by o-0123")
    assert f"the team {TEAM} of Microsoft Teams is disabled" in found["what"]


def test_a_finding_points_at_the_line_that_it_is_about(
    account: AtlasAccount, broken: tuple[int, list[dict[str, Any]]]
) -> None:
    (found,) = [each for each in broken[1] if each["check"] == "reservations"]
    assert found["key"] == "node_groups[0].capacity.reservation"
    line = account.file.read_text(encoding="utf-8").splitlines()[found["line"] - 1]
    assert RESERVATION in line


def test_what_the_caller_may_not_ask_is_told_as_not_checked(forbidden: tuple[int, list[dict[str, Any]]]) -> None:
    status, findings = forbidden
    assert status == 0, "nothing is known to be wrong"
    told = {each["check"] for each in findings if each["level"] == "not checked"}
    # This platform has no training plan, and creates its cluster. Everybody may ask who they are.
    assert told == {each.name for each in CHECKS} - ELSEWHERE.keys()
    assert all("ask for the permission" in each["fix"] for each in findings)


def test_strict_fails_for_what_was_not_checked(account: AtlasAccount, broken: object) -> None:
    assert broken
    skipped = [option for each in CHECKS if each.name != "budget" for option in ("--skip", each.name)]
    assert run(account, *skipped)[0] == 0
    assert run(account, *skipped, "--strict")[0] == 1


def test_every_check_has_a_broken_case() -> None:
    found = {check for _, check, _, _ in BROKEN.values()}
    assert found | ELSEWHERE.keys() == {each.name for each in CHECKS}
    assert all((Path(__file__).parent / name).exists() for name in ELSEWHERE.values())


def test_the_text_ends_with_the_numbers(account: AtlasAccount, broken: tuple[int, list[dict[str, Any]]]) -> None:
    ran = CliRunner().invoke(app, ["preflight", str(account.file)], env=account.environment)
    errors = sum(each["level"] == "error" for each in broken[1])
    last = ran.stdout.splitlines()[-1]
    assert last.startswith(f"atlas in account {ACCOUNT} in {REGION}: {errors} errors, ")
    assert ran.stdout.index("warning: ") < ran.stdout.index("error: "), "what matters most is nearest to the end"
    assert datetime.now(UTC) > BLOCK_TIMES["start"]


def test_a_budget_that_the_deploy_creates_is_not_missed(
    account: AtlasAccount, broken: tuple[int, list[dict[str, Any]]], tmp_path: Path
) -> None:
    assert any(each["check"] == "budget" for each in broken[1])
    document = yaml.safe_load(account.file.read_text(encoding="utf-8"))
    document |= {"tags": {"Platform": "atlas"}, "budget": {"monthly_usd": 1000, "tag": "Platform"}}
    document |= {"observability": {"notify": "costs@example.com"}}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    skipped = [option for each in CHECKS if each.name != "budget" for option in ("--skip", each.name)]
    ran = CliRunner().invoke(app, ["preflight", str(file), "--json", *skipped], env=account.environment)
    assert json.loads(ran.stdout)["findings"] == [], ran.exception


@pytest.mark.parametrize(
    ("role", "service"),
    [
        ("AWSServiceRoleForAmazonEKS", "eks.amazonaws.com"),
        ("AWSServiceRoleForAmazonEKSNodegroup", "eks-nodegroup.amazonaws.com"),
        ("AWSServiceRoleForAmazonFSx", "fsx.amazonaws.com"),
    ],
)
def test_a_role_that_a_service_makes_itself_is_noted_where_it_is_missing(
    role: str, service: str, account: AtlasAccount, broken: object
) -> None:
    assert broken
    skipped = [option for each in CHECKS if each.name != "service-linked-roles" for option in ("--skip", each.name)]
    account.client("iam").delete_role(RoleName=role)
    status, findings = run(account, *skipped)
    account.client("iam").create_role(RoleName=role, AssumeRolePolicyDocument="{}")
    (found,) = [each for each in findings if role in each["what"].split()]
    assert (status, found["level"]) == (0, "note")
    assert "needs iam:CreateServiceLinkedRole" in found["why"] and found["fix"].endswith(service)
    assert not [each for each in run(account, *skipped)[1] if role in each["what"].split()]


def test_a_vpc_of_dedicated_tenancy_is_refused(account: AtlasAccount, broken: object, tmp_path: Path) -> None:
    assert broken
    ec2 = account.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.30.0.0/16", InstanceTenancy="dedicated")["Vpc"]["VpcId"]
    document = yaml.safe_load(account.file.read_text(encoding="utf-8"))
    document["network"]["existing"]["vpc_id"] = vpc
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    skipped = [option for each in CHECKS if each.name != "vpc" for option in ("--skip", each.name)]
    ran = CliRunner().invoke(app, ["preflight", str(file), "--json", *skipped], env=account.environment)
    (found,) = [each for each in json.loads(ran.stdout)["findings"] if "tenancy" in each["what"]]
    assert found["level"] == "error" and "modify-vpc-tenancy" in found["fix"]
