"""A closed network reaches nothing outside, and everything that it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from delivery.supply_variables import supply_variables
from tests.people import ADMIN
from tests.representatives import PLATFORMS, with_representatives
from tests.stacks.by_example import FILES, Synthesized
from tests.synthesis import EXAMPLES, ROOT, Template, all_resources, resources, templates_of
from trainway.spec.loader import load_platform
from trainway.spec.network.subnets import BUILDS_AT_ONCE

CLOSED = ROOT / "examples" / "closed-hyperpod-eks.yaml"
# Who acts from an address in the VPC: builds, nodes, and pods. The control plane and the pipeline do not.
INSIDE = {"codebuild.amazonaws.com", "ec2.amazonaws.com", "pods.eks.amazonaws.com", "sagemaker.amazonaws.com"}
# IAM's prefix of an action -> the endpoints that answer it, where they are not called the same.
ANSWERED_BY = {
    "aps": {"aps-workspaces"},
    "cloudwatch": {"monitoring"},
    "ecr": {"ecr.api", "ecr.dkr", "s3"},
    "sagemaker": {"sagemaker.api"},
}
ACCOUNTING = {
    "endpoint": "slurm.cluster-abc.us-west-2.rds.amazonaws.com",
    "secret": "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf",
}
# Each orchestrator with the fewest features, and with each feature that uses a service of its own.
UNOBSERVED = {"observability": {"metrics": "none"}}
KINDS: dict[str, dict[str, Any]] = {
    "eks": {"orchestrator": "eks", **UNOBSERVED},
    "eks-observed": {"orchestrator": "eks", "kubernetes": {"observability": True, "admins": [ADMIN]}},
    "hyperpod-eks": {"orchestrator": "hyperpod-eks"},
    "hyperpod-eks-observed": {"orchestrator": "hyperpod-eks", "hyperpod": {"observability": True}},
    "hyperpod-eks-operated": {"orchestrator": "hyperpod-eks", "hyperpod": {"training_operator": True}},
    "hyperpod-slurm": {"orchestrator": "hyperpod-slurm", **UNOBSERVED},
    "hyperpod-slurm-observed": {"orchestrator": "hyperpod-slurm", "slurm": {"observability": True}},
    "hyperpod-slurm-accounted": {
        "orchestrator": "hyperpod-slurm",
        "slurm": {"accounting_database": ACCOUNTING},
        **UNOBSERVED,
    },
    "hyperpod-eks-with-all": {
        "orchestrator": "hyperpod-eks",
        "hyperpod": {"observability": True, "training_operator": True},
    },
    "hyperpod-slurm-with-all": {
        "orchestrator": "hyperpod-slurm",
        "slurm": {"observability": True, "accounting_database": ACCOUNTING},
    },
}
# Each uses all services that the other platforms of its orchestrator use. The second is the example itself.
REPRESENTATIVES = ("eks-observed", "hyperpod-eks", "hyperpod-eks-with-all", "hyperpod-slurm-with-all")
OBSERVED_SLURM = ("hyperpod-slurm-observed", "hyperpod-slurm-with-all")
# Needed without any permission: the build agent's own, and what `aws sts get-caller-identity` asks, which none needs.
WITHOUT_PERMISSION = {"codebuild", "sts"}
WAYS_OUT = {
    "AWS::EC2::CarrierGateway",
    "AWS::EC2::EIP",
    "AWS::EC2::EgressOnlyInternetGateway",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway",
    "AWS::EC2::Route",
    "AWS::EC2::TransitGatewayAttachment",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EC2::VPCPeeringConnection",
    "AWS::EC2::VPNGateway",
}


@pytest.fixture(params=with_representatives(KINDS, REPRESENTATIVES), scope="module")
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """The example's templates, of each kind in turn."""
    directory = tmp_path_factory.mktemp(request.param)
    platform = yaml.safe_load(CLOSED.read_text()) | KINDS[request.param]
    if platform["orchestrator"] == "hyperpod-slurm":
        del platform["kubernetes"]
    if platform["orchestrator"] == "eks":
        del platform["node_groups"][0]["capacity"]
    file = directory / "platform.yaml"
    file.write_text(yaml.safe_dump(platform))
    return templates_of(file)


def test_the_example_is_one_of_those_whose_templates_are_kept_and_deployed() -> None:
    assert CLOSED in EXAMPLES
    assert load_platform(CLOSED).network.is_closed


def test_nothing_leads_out_of_it_or_in(closed: dict[str, Template]) -> None:
    for role, template in closed.items():
        kinds = {resource["Type"] for resource in template["Resources"].values()}
        assert not kinds & WAYS_OUT, role
    assert not any(s["MapPublicIpOnLaunch"] for s in resources(closed["network"], "AWS::EC2::Subnet").values())


def test_the_cluster_has_no_public_endpoint(closed: dict[str, Template]) -> None:
    for cluster in all_resources(closed, "AWS::EKS::Cluster").values():
        access = cluster["ResourcesVpcConfig"]
        assert (access["EndpointPrivateAccess"], access["EndpointPublicAccess"]) == (True, False)


def test_every_build_runs_inside_it(closed: dict[str, Template]) -> None:
    projects = [p for t in closed.values() for p in resources(t, "AWS::CodeBuild::Project").values()]
    assert len(projects) >= 2
    for project in projects:
        assert (
            project["VpcConfig"]["VpcId"]
            and project["VpcConfig"]["Subnets"]
            and project["VpcConfig"]["SecurityGroupIds"]
        )
        variables = {v["Name"]: v["Value"] for v in project["Environment"]["EnvironmentVariables"]}
        assert variables.get("NETWORK_ACCESS", "closed") == "closed"


def test_there_are_addresses_for_the_builds_that_run_at_once(closed: dict[str, Template]) -> None:
    widest = {
        role: max(len(stage["Actions"]) for stage in pipeline["Stages"])
        for (role, _), pipeline in all_resources(closed, "AWS::CodePipeline::Pipeline").items()
    }
    # The image is built beside everything else; what is copied is copied before the cluster's own stages begin.
    assert widest["image"] + max(widest["cluster"], widest.get("mirror", 0)) <= BUILDS_AT_ONCE


def test_it_has_the_endpoint_of_every_service_that_anything_in_it_may_call_and_no_other(
    closed: dict[str, Template],
) -> None:
    needed = WITHOUT_PERMISSION | {
        endpoint
        for action in called_from_inside(closed)
        for service in [action.split(":")[0]]
        for endpoint in ANSWERED_BY.get(service, {service})
    }
    endpoints = resources(closed["network"], "AWS::EC2::VPCEndpoint").values()
    prefix = "com.amazonaws.us-west-2."
    assert {endpoint["ServiceName"].removeprefix(prefix) for endpoint in endpoints} == needed


def test_its_endpoints_answer_under_the_services_own_names_in_every_zone(closed: dict[str, Template]) -> None:
    network = closed["network"]
    clusters = [{"Ref": name} for name in resources(network, "AWS::EC2::Subnet") if "Cluster" in name]
    tables = [{"Ref": name} for name in resources(network, "AWS::EC2::RouteTable")]
    for endpoint in resources(network, "AWS::EC2::VPCEndpoint").values():
        if endpoint["VpcEndpointType"] == "Gateway":
            assert endpoint["RouteTableIds"] == tables
        else:
            assert endpoint["PrivateDnsEnabled"] is True
            assert endpoint["SubnetIds"] == clusters
    (vpc,) = resources(network, "AWS::EC2::VPC").values()
    assert vpc["EnableDnsSupport"] is True and vpc["EnableDnsHostnames"] is True


def test_nodes_may_leave_their_group_only_for_the_vpc_and_for_https(closed: dict[str, Template]) -> None:
    network = closed["network"]
    (vpc,) = resources(network, "AWS::EC2::VPC").values()
    ((_, outward),) = [
        item for item in resources(network, "AWS::EC2::SecurityGroup").items() if item[0].startswith("EfaOutward")
    ]
    allowed = {(rule["CidrIp"], rule["IpProtocol"], rule.get("FromPort")) for rule in outward["SecurityGroupEgress"]}
    assert allowed == {(vpc["CidrBlock"], "-1", None), ("0.0.0.0/0", "tcp", 443)}


def test_the_deploy_says_how_to_bring_in_what_it_cannot_fetch(
    closed: dict[str, Template], request: pytest.FixtureRequest
) -> None:
    (parameter,) = resources(closed["registry"], "AWS::SSM::Parameter").values()
    command = closed["registry"]["Outputs"]["Supply"]["Value"]
    assert command == f"AWS_REGION=us-west-2 SUPPLY_PARAMETER={parameter['Name']} bash delivery/supply.sh"
    asked = re.findall(r"^require (.*)$", (ROOT / "delivery" / "supply.sh").read_text(), re.MULTILINE)[1].split()
    assert all(f'"{variable}":' in json.dumps(parameter["Value"]).replace("\\", "") for variable in asked)
    assert len(asked) == 6
    known = {"AWS::AccountId": "111122223333", "AWS::Region": "us-west-2", "AWS::URLSuffix": "amazonaws.com"}
    parts = parameter["Value"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else known.get(part.get("Ref"), "of-the-deploy") for part in parts)
    supplied = supply_variables(text)
    assert json.loads(supplied["IMAGE_ARGUMENTS"])["VARIANT"] == "cuda"
    packages = {name: supplied[name] for name in ("CONTAINERS", "EXPORTERS", "COLLECTOR") if name in supplied}
    kind = request.node.callspec.params["closed"]
    expected = {"CONTAINERS": "wanted", "EXPORTERS": "true"} if "slurm" in kind else {}
    assert packages == expected | ({"COLLECTOR": "true"} if kind in OBSERVED_SLURM else {})
    repositories = {r["RepositoryName"] for r in resources(closed["registry"], "AWS::ECR::Repository").values()}
    assert "vault/mirror/training-base" in repositories


def called_from_inside(stacks: dict[str, Template]) -> Iterator[str]:
    """Every action that a role of something inside the VPC may do."""
    for template in stacks.values():
        for name, role in resources(template, "AWS::IAM::Role").items():
            trusted = {s["Principal"].get("Service") for s in role["AssumeRolePolicyDocument"]["Statement"]}
            if not trusted & INSIDE:
                continue
            for policy in resources(template, "AWS::IAM::Policy").values():
                if {"Ref": name} in policy["Roles"]:
                    yield from actions_of(policy["PolicyDocument"])
            for arn in role.get("ManagedPolicyArns", []):
                yield from actions_of(managed_policies()[arn["Fn::Join"][1][-1].rpartition("/")[2]]["Document"])


def actions_of(document: dict[str, Any]) -> Iterator[str]:
    """The actions that a policy document allows, without those that another service calls in the role's name."""
    for statement in document["Statement"]:
        if "kms:ViaService" in json.dumps(statement.get("Condition", {})):
            continue
        yield from [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]


@cache
def managed_policies() -> dict[str, Any]:
    """AWS's managed policies, as recorded in moto."""
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    loaded: dict[str, Any] = json.loads(aws_managed_policies_data)
    return loaded


@pytest.mark.parametrize("example", with_representatives(sorted(set(FILES) - {CLOSED.stem}), PLATFORMS))
def test_a_network_with_a_way_out_builds_outside_what_calls_no_cluster(example: str, synthesized: Synthesized) -> None:
    for template in synthesized[example].values():
        for project in resources(template, "AWS::CodeBuild::Project").values():
            told = {each["Name"] for each in project["Environment"]["EnvironmentVariables"]}
            assert ("VpcConfig" in project) == ("CLUSTER_NAME" in told)
