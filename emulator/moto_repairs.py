"""Fixes for moto 5.2.5 where it refuses what AWS allows, or is slow. The rest of moto is used unchanged."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_MISSING = re.compile(r"The (\w+) action has not been implemented")


def allow_what_aws_allows() -> None:
    """Remove the wrong checks from moto."""
    from moto.codebuild import responses as codebuild
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    # moto enforces a bucket policy's Deny without reading its Condition, so "deny without TLS" would deny everything.
    FakeBucket.get_permission = lambda *_: PermissionResult.NEUTRAL  # type: ignore[method-assign]
    # moto's list of CodeBuild's compute types is years old, and a CODEPIPELINE source or artifact has no location in
    # AWS either. The resource schema has already checked all three.
    for part in ("source", "artifacts", "environment"):
        setattr(codebuild, f"_validate_required_params_{part}", lambda _: None)


def compare_rules_as_ec2_does() -> None:
    """Let two rules of a security group be the same if only their descriptions differ, so that the second is refused.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_UpdateSecurityGroupRuleDescriptionsEgress.html
    (read 2026-11-30)
    """
    from moto.ec2.models.security_groups import SecurityGroupRule

    def what(rule: Any) -> tuple[Any, ...]:
        addresses, group = rule.ip_range or {}, rule.source_group or {}
        peer = addresses.get("CidrIp"), addresses.get("CidrIpv6"), group.get("GroupId"), rule.prefix_list_id
        return rule.ip_protocol, rule.from_port, rule.to_port, peer

    SecurityGroupRule.__eq__ = lambda self, other: what(self) == what(other)  # type: ignore[method-assign]


def tell_what_file_systems_are() -> None:
    """Let FSx answer with the state of a file system, which moto leaves out. A new one is available."""
    from moto.fsx.models import FileSystem

    described = FileSystem.to_dict

    def to_dict(self: Any) -> dict[str, Any]:
        return described(self) | {"Lifecycle": getattr(self, "lifecycle", "AVAILABLE")}

    FileSystem.to_dict = to_dict  # type: ignore[method-assign]


def name_the_error_of_an_absent_cluster() -> None:
    """Let SageMaker's calls about a cluster return ResourceNotFound, as documented, for one that does not exist.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html#API_DescribeCluster_Errors
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListClusterNodes.html#API_ListClusterNodes_Errors
    (read 2026-11-30)
    """
    from moto.sagemaker.exceptions import ResourceNotFound, ValidationError
    from moto.sagemaker.models import SageMakerModelBackend

    def with_the_error(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except ValidationError as error:
                raise ResourceNotFound(message=str(error.message)) from None

        return call

    for name in ("describe_cluster", "list_cluster_nodes"):
        setattr(SageMakerModelBackend, name, with_the_error(getattr(SageMakerModelBackend, name)))


def describe_eks_clusters_as_eks_does() -> None:
    """Add the access, the VPC, and the security group of a cluster to moto's answer of DescribeCluster.

    EKS creates a security group for each cluster, with all traffic from itself and to itself.
    https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html (read 2026-11-30)
    """
    from moto.ec2.exceptions import InvalidSubnetIdError
    from moto.ec2.models import ec2_backends
    from moto.eks.models import EKSBackend
    from moto.eks.responses import EKSResponse

    created, updated = EKSResponse.create_cluster, EKSBackend.update_cluster_config

    def create_cluster(self: Any) -> Any:
        name, network = self._get_param("name"), self._get_param("resourcesVpcConfig")
        answer = created(self)
        cluster = self.eks_backend.clusters[name]
        access = self._get_param("accessConfig") or {}
        cluster.access_config = {"authenticationMode": access.get("authenticationMode", "CONFIG_MAP")}
        ec2 = ec2_backends[self.current_account][self.region]
        try:
            vpc_id = ec2.get_subnet(network["subnetIds"][0]).vpc_id
        except InvalidSubnetIdError:
            return answer  # moto creates a cluster in subnets that do not exist, too
        group = ec2.create_security_group(
            f"eks-cluster-sg-{name}", "EKS created security group", vpc_id=vpc_id, tags={"aws:eks:cluster-name": name}
        )
        for authorize in (ec2.authorize_security_group_ingress, ec2.authorize_security_group_egress):
            authorize(
                group_name_or_id=group.group_id, ip_protocol="-1", from_port="", to_port="", ip_ranges=[],
                source_groups=[{"GroupId": group.group_id}], vpc_id=vpc_id,
            )  # fmt: skip
        cluster.resources_vpc_config = {
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            **network,
            "vpcId": vpc_id,
            "clusterSecurityGroupId": group.group_id,
        }
        return answer

    def update_cluster_config(self: Any, name: str, resources_vpc_config: Any, *others: Any, **named: Any) -> Any:
        known = dict(self.clusters[name].resources_vpc_config) if name in self.clusters else {}
        asked = {**known, **resources_vpc_config} if resources_vpc_config else {}
        return updated(self, name, asked, *others, **named)

    EKSResponse.create_cluster = create_cluster  # type: ignore[method-assign]
    EKSBackend.update_cluster_config = update_cluster_config  # type: ignore[method-assign]


def read_service_models_once() -> None:
    """Share the parsed service models of AWS among all botocore sessions of this process.

    moto creates a session for each call that checks a role, and each session reads megabytes of JSON. The clients of
    one session share its loader in the same way.
    """
    from botocore import session

    session.create_loader = functools.cache(session.create_loader)


def answer_requests_faster() -> None:
    """Leave out work of moto's server whose result nobody uses."""
    from moto import backends
    from moto.kms import models

    # It reads its package's directory for each request.
    names = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: names
    # It generates an RSA key for each KMS key. A symmetric key does not sign: it encrypts with other key material.
    replaced: Any = models
    generate = replaced.generate_private_key
    replaced.generate_private_key = lambda spec: None if spec == "SYMMETRIC_DEFAULT" else generate(spec)


def without_debugging(create_app: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that creates moto's Flask applications without Flask's debug mode.

    In debug mode Flask makes a class for each request. Errors are raised to the server, as in debug mode.
    """

    def create(service: Any) -> Any:
        app = create_app(service)
        app.debug, app.config["PROPAGATE_EXCEPTIONS"] = False, True
        return app

    return create


def refuse_missing_operations(services: Wsgi) -> Wsgi:
    """Answer 400 for an operation that moto lacks. moto's own 500 makes clients retry for half a minute."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return services(environ, start_response)
        except NotImplementedError as error:
            found = _MISSING.search(str(error))
            message = f"The emulator does not have the operation {found[1] if found else error}"
        if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
            from emulator.protocol import render_error

            body, kind = render_error("NotEmulated", message), "text/xml"
        else:
            body, kind = json.dumps({"__type": "NotEmulated", "message": message}).encode(), "application/json"
        start_response("400 Bad Request", [("Content-Type", kind), ("x-amzn-ErrorType", "NotEmulated")])
        return [body]

    return application
