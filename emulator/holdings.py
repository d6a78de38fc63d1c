"""What an account has that moto lacks: reserved capacity, training plans, quotas, add-ons, and what it may not ask.

A test sets it. botocore's models check each part, so that a client reads what AWS could have answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from emulator import cluster_nodes
from emulator.api_calls import ApiCall, require_shape, shape_of
from emulator.errors import RefusedCall

# Of a quota that no test has set. Tests that deploy platforms need none.
PLENTY = 1_000_000.0
# What no test sets.
_OWN = ("account", "region", "endpoint", "addons_of_stacks", "clusters_of_stacks")
# The parts that tests set, with the shape of their items in an API.
_SHAPES = {
    "capacity_reservations": ("ec2", "CapacityReservation"),
    "training_plans": ("sagemaker", "DescribeTrainingPlanResponse"),
    "quotas": ("service-quotas", "ServiceQuota"),
    "quota_requests": ("service-quotas", "RequestedServiceQuotaChange"),
    "access_entries": ("eks", "AccessEntry"),
    "addons": ("eks", "Addon"),
    "data_repository_associations": ("fsx", "DataRepositoryAssociation"),
    "node_group_issues": ("eks", "Issue"),
    "slack_workspaces": ("chatbot", "SlackWorkspace"),
    "microsoft_teams": ("chatbot", "ConfiguredTeam"),
}

# What a Region that is not enabled answers to every caller:
# https://github.com/hashicorp/terraform-provider-aws/issues/25281, https://github.com/aws/aws-sdk-ruby/issues/2850
# (read 2026-11-30)
_UNKNOWN = {
    "": ("UnrecognizedClientException", "The security token included in the request is invalid.", 400),
    "ec2": ("AuthFailure", "AWS was not able to validate the provided access credentials", 401),
    "sts": ("InvalidClientTokenId", "The security token included in the request is invalid.", 403),
}


@dataclass
class AccountHoldings:
    """The holdings of an account in one Region.

    `denied` are calls that answer AccessDenied in every Region, for example `ec2:DescribeSubnets`. Regions that are
    not enabled refuse all credentials. `others_buckets` are names of buckets of other accounts. `not_offered` are
    instance types that EC2 does not have. `zone_states` are the states of zones that are not available, by their
    IDs. `layers` are texts of images by digest, which ECR gives at an address of the emulator. `file_system_states`
    are those that are not AVAILABLE. `cluster_nodes` are the nodes of HyperPod clusters, by the cluster's name.
    `confirmed` are the addresses and URLs that have confirmed their subscriptions to topics. `addons_of_stacks` and
    `clusters_of_stacks` are what the Region's stacks made.
    """

    account: str
    region: str
    endpoint: str
    denied: list[str]
    regions_not_enabled: list[str]
    capacity_reservations: list[dict[str, Any]] = field(default_factory=list)
    training_plans: list[dict[str, Any]] = field(default_factory=list)
    quotas: list[dict[str, Any]] = field(default_factory=list)
    quota_requests: list[dict[str, Any]] = field(default_factory=list)
    access_entries: list[dict[str, Any]] = field(default_factory=list)
    addons: list[dict[str, Any]] = field(default_factory=list)
    data_repository_associations: list[dict[str, Any]] = field(default_factory=list)
    node_group_issues: list[dict[str, Any]] = field(default_factory=list)
    slack_workspaces: list[dict[str, Any]] = field(default_factory=list)
    microsoft_teams: list[dict[str, Any]] = field(default_factory=list)
    others_buckets: list[str] = field(default_factory=list)
    not_offered: list[str] = field(default_factory=list)
    zone_states: dict[str, str] = field(default_factory=dict)
    file_system_states: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    cluster_nodes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    confirmed: list[str] = field(default_factory=list)
    addons_of_stacks: list[dict[str, Any]] = field(default_factory=list)
    clusters_of_stacks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def set(self, what: dict[str, Any]) -> None:
        """Replace the holdings that `what` names. Raises ValueError for what AWS's API does not have."""
        for name, value in what.items():
            if name not in self.__dataclass_fields__ or name in _OWN:
                raise ValueError(f"holdings have no {name}")
            if name in _SHAPES:
                service, shape = _SHAPES[name]
                value = [_with_times(each, shape_of(service, shape)) for each in value]
                for each in value:
                    require_shape(each, shape_of(service, shape), name)
            if name == "cluster_nodes":
                summary = shape_of("sagemaker", "ClusterNodeSummary")
                value = {cluster: [_with_times(each, summary) for each in nodes] for cluster, nodes in value.items()}
                for each in (node for nodes in value.values() for node in nodes):
                    require_shape(each, summary, name)
            if name in ("denied", "regions_not_enabled"):
                getattr(self, name)[:] = value  # they are of the account, and all Regions have one list
            else:
                setattr(self, name, value)

    def refusal(self, call: ApiCall) -> tuple[int, bytes, str] | None:
        """Return the answer to a call that is denied, or None for every other call."""
        if self.region in self.regions_not_enabled:
            return call.error(*_UNKNOWN.get(call.service, _UNKNOWN[""]))
        if call.action in self.denied:
            who = f"arn:aws:sts::{self.account}:assumed-role/somebody/session"
            code = "UnauthorizedOperation" if call.service == "ec2" else "AccessDeniedException"
            return call.error(code, f"User: {who} is not authorized to perform: {call.action}", 403)
        if call.service == "s3":
            return self._of_s3(call)
        return None

    def answer(self, call: ApiCall) -> tuple[int, bytes, str] | None:
        """Return the answer to a call, or None if another part of the emulator has it."""
        function = _OPERATIONS.get(call.action)
        if function is None:
            return None
        try:
            result = function(self, call.valid_parameters())
        except RefusedCall as refused:
            return call.error(refused.code, str(refused))
        return None if result is None else call.answer(result)

    def _of_s3(self, call: ApiCall) -> tuple[int, bytes, str] | None:
        bucket = _bucket_of(call.environ)
        return call.error("AccessDenied", "Access Denied", 403) if bucket in self.others_buckets else None


def _bucket_of(environ: dict[str, Any]) -> str:
    host = str(environ.get("HTTP_HOST", ""))
    if ".localhost" in host:
        return host.partition(".localhost")[0]
    return str(environ["PATH_INFO"]).strip("/").partition("/")[0]


def _with_times(value: Any, shape: Any) -> Any:
    """Return a JSON value with datetimes in place of texts where the shape has timestamps."""
    match shape.type_name:
        case "structure" if isinstance(value, dict):
            return {
                key: _with_times(each, shape.members[key]) if key in shape.members else each
                for key, each in value.items()
            }
        case "list" if isinstance(value, list):
            return [_with_times(each, shape.member) for each in value]
        case "timestamp" if isinstance(value, str):
            return datetime.fromisoformat(value).astimezone(UTC)
    return value


def _capacity_reservations(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    known = {each["CapacityReservationId"]: each for each in holdings.capacity_reservations}
    wanted = asked.get("CapacityReservationIds") or list(known)
    if missing := [name for name in wanted if name not in known]:
        why = f"The capacity reservation '{missing[0]}' does not exist"
        raise RefusedCall("InvalidCapacityReservationId.NotFound", why)
    return {"CapacityReservations": [known[name] for name in wanted]}


def _training_plan(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    for plan in holdings.training_plans:
        if plan["TrainingPlanName"] == asked["TrainingPlanName"]:
            return plan
    raise RefusedCall("ResourceNotFound", f"Training plan {asked['TrainingPlanName']} not found")


def _quotas(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    return {"Quotas": [each for each in holdings.quotas if each["ServiceCode"] == asked["ServiceCode"]]}


def _quota(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    service, code = asked["ServiceCode"], asked["QuotaCode"]
    for each in holdings.quotas:
        if (each["ServiceCode"], each.get("QuotaCode")) == (service, code):
            return {"Quota": each}
    arn = f"arn:aws:servicequotas:{holdings.region}:{holdings.account}:{service}/{code}"
    plenty = {"ServiceCode": service, "QuotaCode": code, "QuotaArn": arn, "Value": PLENTY, "Adjustable": True}
    return {"Quota": plenty}


def _quota_requests(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    key = ("ServiceCode", "QuotaCode")
    found = [each for each in holdings.quota_requests if [each[name] for name in key] == [asked[name] for name in key]]
    return {"RequestedQuotas": [each for each in found if asked.get("Status") in (None, each["Status"])]}


def _regions(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return the Regions with their state, which moto says of none. Without AllRegions, moto answers."""
    if not asked.get("AllRegions"):
        return None
    from moto.ec2.models import ec2_backends

    return {
        "Regions": [
            {
                "RegionName": each.name,
                "Endpoint": each.endpoint,
                "OptInStatus": "not-opted-in" if each.name in holdings.regions_not_enabled else "opt-in-not-required",
            }
            for each in ec2_backends[holdings.account][holdings.region].describe_regions()
        ]
    }


def _zones(holdings: AccountHoldings, _asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return the zones with their states, if one is not available. Otherwise moto answers."""
    if not holdings.zone_states:
        return None
    from moto.ec2.models import ec2_backends

    zones = ec2_backends[holdings.account][holdings.region].describe_availability_zones()
    return {
        "AvailabilityZones": [
            {
                "ZoneName": each.name,
                "ZoneId": each.zone_id,
                "RegionName": each.region_name,
                "State": holdings.zone_states.get(each.zone_id, each.state),
            }
            for each in zones
            if holdings.zone_states.get(each.zone_id) != "absent"
        ]
    }


def _offerings(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    from moto.ec2.models import ec2_backends

    filters = {each["Name"]: each["Values"] for each in asked.get("Filters", [])}
    found = ec2_backends[holdings.account][holdings.region].describe_instance_type_offerings(
        asked.get("LocationType", "region"), filters
    )
    names = ("InstanceType", "LocationType", "Location")
    offered = [{name: each[name] for name in names if name in each} for each in found]
    kept = [each for each in offered if each["InstanceType"] not in holdings.not_offered]
    return {"InstanceTypeOfferings": kept}


def _simulate(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    """Judge actions by the policies of a role or a user. Boundaries and policies of the organization are not read."""
    from moto.iam.access_control import IAMPolicy, PermissionResult

    policies = [IAMPolicy(json.dumps(each)) for each in _policies(holdings, asked["PolicySourceArn"])]
    results = []
    for action in asked["ActionNames"]:
        for resource in asked.get("ResourceArns") or ["*"]:
            said = {policy.is_action_permitted(action, resource) for policy in policies}
            decision = "allowed" if PermissionResult.PERMITTED in said else "implicitDeny"
            decision = "explicitDeny" if PermissionResult.DENIED in said else decision
            results.append({"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": decision})
    return {"EvaluationResults": results, "IsTruncated": False}


def _policies(holdings: AccountHoldings, arn: str) -> Iterator[dict[str, Any]]:
    from moto.iam.models import iam_backends

    backend = iam_backends[holdings.account]["aws"]
    kind, _, path = arn.rpartition(":")[2].partition("/")
    name = path.rpartition("/")[2]
    owners = backend.roles.values() if kind == "role" else backend.users.values()
    owner: Any = next((each for each in owners if each.name == name), None)
    if owner is None:
        raise RefusedCall("NoSuchEntity", f"The entity {arn} cannot be found.")
    managed = [version for each in owner.managed_policies.values() for version in each.versions if version.is_default]
    for document in [*owner.policies.values(), *(version.document for version in managed)]:
        yield json.loads(document) if isinstance(document, str) else document


def _file_systems(holdings: AccountHoldings, _asked: dict[str, Any]) -> None:
    """Give file systems of moto their states, with which moto answers."""
    from moto.fsx.models import fsx_backends

    for each in fsx_backends[holdings.account][holdings.region].file_systems.values():
        each.lifecycle = holdings.file_system_states.get(each.file_system_id, "AVAILABLE")  # type: ignore[attr-defined]


def _associations(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    wanted = {value for each in asked.get("Filters", []) for value in each["Values"]}
    found = holdings.data_repository_associations
    return {"Associations": [each for each in found if not wanted or each.get("FileSystemId") in wanted]}


def _layer(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    digest = asked["layerDigest"]
    if digest not in holdings.layers:
        raise RefusedCall("LayersNotFoundException", f"The layer {digest} does not exist")
    return {"downloadUrl": f"{holdings.endpoint}/_trainway/layers/{holdings.region}/{digest}", "layerDigest": digest}


def _list_addons(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    return {"addons": [each["addonName"] for each in _addons_of(holdings, asked["clusterName"])]}


def _addons_of(holdings: AccountHoldings, cluster: str) -> list[dict[str, Any]]:
    """Return the add-ons of a cluster. Add-ons that a test set take precedence over those of stacks."""
    given = [each for each in holdings.addons if each["clusterName"] == cluster]
    return given or [each for each in holdings.addons_of_stacks if each["clusterName"] == cluster]


def _addon(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    for each in _addons_of(holdings, asked["clusterName"]):
        if each["addonName"] == asked["addonName"]:
            return {"addon": each}
    raise RefusedCall("ResourceNotFoundException", f"No addon: {asked['addonName']} found in cluster")


def _access_entry(holdings: AccountHoldings, asked: dict[str, Any]) -> dict[str, Any]:
    for each in holdings.access_entries:
        if (each["clusterName"], each["principalArn"]) == (asked["clusterName"], asked["principalArn"]):
            return {"accessEntry": each}
    raise RefusedCall("ResourceNotFoundException", "The specified principalArn could not be found")


def _node_group(holdings: AccountHoldings, asked: dict[str, Any]) -> None:
    """Give a node group of moto its issues, with which moto answers."""
    from moto.eks.models import eks_backends

    clusters = eks_backends[holdings.account][holdings.region].clusters
    groups: Any = clusters[asked["clusterName"]].nodegroups if asked["clusterName"] in clusters else {}
    if group := groups.get(asked["nodegroupName"]):
        issues = holdings.node_group_issues
        group.health = {"issues": [each for each in issues if group.nodegroup_name in each["resourceIds"]]}


def _slack_workspaces(holdings: AccountHoldings, _asked: dict[str, Any]) -> dict[str, Any]:
    return {"SlackWorkspaces": holdings.slack_workspaces}


def _microsoft_teams(holdings: AccountHoldings, _asked: dict[str, Any]) -> dict[str, Any]:
    return {"ConfiguredTeams": holdings.microsoft_teams}


def _subscriptions(holdings: AccountHoldings, _asked: dict[str, Any]) -> dict[str, Any]:
    """Return subscriptions of which those of people and URLs wait until they are confirmed, which moto leaves out.

    https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html (read 2026-11-30)
    """
    from moto.sns.models import sns_backends

    subscriptions = list(sns_backends[holdings.account][holdings.region].subscriptions.values())
    asked = ("email", "email-json", "http", "https")
    waiting = {each.arn for each in subscriptions if each.protocol in asked and each.endpoint not in holdings.confirmed}
    return {
        "Subscriptions": [
            {
                "SubscriptionArn": "PendingConfirmation" if each.arn in waiting else each.arn,
                "Owner": holdings.account,
                "Protocol": each.protocol,
                "Endpoint": each.endpoint,
                "TopicArn": each.topic_arn,
            }
            for each in subscriptions
        ]
    }


_OPERATIONS: dict[str, Callable[[AccountHoldings, dict[str, Any]], dict[str, Any] | None]] = {
    "chatbot:DescribeSlackWorkspaces": _slack_workspaces,
    "chatbot:ListMicrosoftTeamsConfiguredTeams": _microsoft_teams,
    "ec2:DescribeCapacityReservations": _capacity_reservations,
    "ec2:DescribeInstanceTypeOfferings": _offerings,
    "ec2:DescribeAvailabilityZones": _zones,
    "ec2:DescribeRegions": _regions,
    "ecr:GetDownloadUrlForLayer": _layer,
    "eks:DescribeAccessEntry": _access_entry,
    "eks:DescribeAddon": _addon,
    "eks:DescribeNodegroup": _node_group,
    "eks:ListAddons": _list_addons,
    "fsx:DescribeDataRepositoryAssociations": _associations,
    "fsx:DescribeFileSystems": _file_systems,
    "iam:SimulatePrincipalPolicy": _simulate,
    "sagemaker:BatchRebootClusterNodes": cluster_nodes.reboot,
    "sagemaker:BatchReplaceClusterNodes": cluster_nodes.replace,
    "sagemaker:DescribeCluster": cluster_nodes.describe,
    "sagemaker:DescribeTrainingPlan": _training_plan,
    "sagemaker:ListClusterNodes": cluster_nodes.list_nodes,
    "sagemaker:StartClusterHealthCheck": cluster_nodes.check_health,
    "service-quotas:GetServiceQuota": _quota,
    "service-quotas:ListRequestedServiceQuotaChangeHistoryByQuota": _quota_requests,
    "service-quotas:ListServiceQuotas": _quotas,
    "sns:ListSubscriptions": _subscriptions,
}
