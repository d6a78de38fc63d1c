"""Access of people to the cluster, directly or by a role that they assume."""

from __future__ import annotations

import hashlib

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.iam.permissions import Permission, grant, regional_arn
from stacks.constructs.storage.data_permissions import data_permissions, record_permissions
from trainway.spec.deployed_file import deployed_file_name
from trainway.spec.handoff_names import chosen_image_parameter_name, image_parameter_name, parameter_name
from trainway.spec.platform import Platform
from trainway.spec.teams.personas import Persona, personas
from trainway.spec.teams.team_data import team_prefixes


def let_people_in(
    scope: Construct, *, platform: Platform, control_plane: ControlPlane, bucket: s3.IBucket
) -> dict[Persona, iam.Role]:
    """Create the access entries, and with `iam.persona_roles` a role for each persona. Return the roles by persona.

    The ARN of each role is an output of the stack.
    """
    if not platform.iam.persona_roles:
        _let_in_directly(scope, platform, control_plane)
        return {}
    roles = {}
    for persona in personas(platform):
        id = "".join(part.capitalize() for part in persona.name.split("-"))
        role = _role(scope, f"{id}Role", platform, persona, control_plane.cluster.arn, bucket)
        control_plane.let_in(scope, f"{id}Entry", role.role_arn, groups=persona.groups, admin=persona.administers)
        cdk.CfnOutput(cdk.Stack.of(scope), f"{id}Role", value=role.role_arn, description=f"What {persona.name} assumes")
        roles[persona] = role
    return roles


def _role(
    scope: Construct, id: str, platform: Platform, persona: Persona, cluster_arn: str, bucket: s3.IBucket
) -> iam.Role:
    """Return a role with the AWS permissions of `aws eks update-kubeconfig` and `trainway launch`.

    Kubernetes controls the rest.
    """
    trusted = iam.CompositePrincipal(*(iam.ArnPrincipal(person) for person in persona.people))
    role = iam.Role(scope, id, assumed_by=trusted, description=f"{persona.name} of {platform.name}")
    of_images = (
        name(platform.name, image)
        for image in platform.image_names
        for name in (image_parameter_name, chosen_image_parameter_name)
    )
    # `trainway launch --wherever` reads the platform file, because whoever connects to a platform has none.
    names = (parameter_name(platform.name), deployed_file_name(platform.name), *of_images)
    read = Permission(("ssm:GetParameter",), tuple(regional_arn("ssm", f"parameter{name}") for name in names))
    grant(role, Permission(("eks:DescribeCluster",), (cluster_arn,)), read)
    if persona.moves_data:
        team = team_prefixes(platform).get(persona.team) if persona.team else None
        grant(role, *data_permissions(bucket, team))
    else:
        grant(role, *record_permissions(bucket))
    return role


def _let_in_directly(scope: Construct, platform: Platform, control_plane: ControlPlane) -> None:
    """Create one access entry per person, whatever number of roles they have, because EKS accepts only one."""
    groups, administrators = dict[str, list[str]](), set[str]()
    for persona in personas(platform):
        for person in persona.people:
            groups.setdefault(person, []).extend(persona.groups)
            if persona.administers:
                administrators.add(person)
    for person, theirs in groups.items():
        # The ID depends on the person, not on their position in the list: an entry that moves would conflict with
        # itself.
        id = f"Principal{hashlib.sha256(person.encode()).hexdigest()[:8]}"
        control_plane.let_in(scope, id, person, groups=theirs, admin=person in administrators)
