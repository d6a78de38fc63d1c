"""IAM and KMS: policies and keys. They are kept, but never enforced."""

from __future__ import annotations

import json
from typing import Any

from emulator.registry.schema import Properties
from emulator.services.service import Aws, Service, ignoring, only_changed, without

_PRINCIPALS = {"Groups": "group", "Roles": "role", "Users": "user"}


def _document(policy: Any) -> str:
    return policy if isinstance(policy, str) else json.dumps(policy)


def create_role(aws: Aws, model: Properties) -> Properties:
    trust = _document(model["AssumeRolePolicyDocument"])
    role = aws.call("iam", "create_role", without(model, "AssumeRolePolicyDocument"), AssumeRolePolicyDocument=trust)
    _change_role(aws, {}, model)
    return {"Arn": role["Role"]["Arn"], "RoleId": role["Role"]["RoleId"]}


def update_role(aws: Aws, old: Properties, new: Properties) -> Properties:
    name, iam = new["RoleName"], aws.client("iam")
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=_document(new["AssumeRolePolicyDocument"]))
    aws.call(
        "iam", "update_role", {key: new[key] for key in ("RoleName", "Description", "MaxSessionDuration") if key in new}
    )
    _change_role(aws, old, new)
    return {}


def _change_role(aws: Aws, old: Properties, new: Properties) -> None:
    name, iam = new["RoleName"], aws.client("iam")
    before, after = ({item["PolicyName"]: item for item in model.get("Policies", [])} for model in (old, new))
    for policy in before.keys() - after.keys():
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    for policy, item in after.items():
        iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=_document(item["PolicyDocument"]))
    attached, wanted = (set(model.get("ManagedPolicyArns", [])) for model in (old, new))
    for arn in sorted(attached - wanted):
        iam.detach_role_policy(RoleName=name, PolicyArn=arn)
    for arn in sorted(wanted - attached):
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    if new.get("Tags"):
        iam.tag_role(RoleName=name, Tags=new["Tags"])


def delete_role(aws: Aws, model: Properties) -> None:
    name, iam = model["RoleName"], aws.client("iam")
    with ignoring("NoSuchEntity"):
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy)
        for policy in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
        iam.delete_role(RoleName=name)


def create_inline_policy(aws: Aws, model: Properties) -> Properties:
    for kind, principal in _principals(model):
        getattr(aws.client("iam"), f"put_{kind}_policy")(
            **{f"{kind.title()}Name": principal},
            PolicyName=model["PolicyName"],
            PolicyDocument=_document(model["PolicyDocument"]),
        )
    return {}


def update_inline_policy(aws: Aws, old: Properties, new: Properties) -> Properties:
    delete_inline_policy(aws, old)
    return create_inline_policy(aws, new)


def delete_inline_policy(aws: Aws, model: Properties) -> None:
    for kind, principal in _principals(model):
        with ignoring("NoSuchEntity"):
            getattr(aws.client("iam"), f"delete_{kind}_policy")(
                **{f"{kind.title()}Name": principal}, PolicyName=model["PolicyName"]
            )


def _principals(model: Properties) -> list[tuple[str, str]]:
    return [(kind, principal) for key, kind in _PRINCIPALS.items() for principal in model.get(key, [])]


def create_managed_policy(aws: Aws, model: Properties) -> Properties:
    document = _document(model["PolicyDocument"])
    arguments = {"PolicyName": model["ManagedPolicyName"], **without(model, "PolicyDocument", "Tags")}
    policy = aws.call("iam", "create_policy", arguments, PolicyDocument=document)["Policy"]
    _attach(aws, policy["Arn"], {}, model)
    return {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"], "DefaultVersionId": policy["DefaultVersionId"]}


def update_managed_policy(aws: Aws, old: Properties, new: Properties) -> Properties:
    arn, iam = new["PolicyArn"], aws.client("iam")
    _attach(aws, arn, old, new)
    if old["PolicyDocument"] == new["PolicyDocument"]:
        return {}
    version = iam.create_policy_version(
        PolicyArn=arn, PolicyDocument=_document(new["PolicyDocument"]), SetAsDefault=True
    )["PolicyVersion"]
    # IAM keeps at most five versions of a policy. CloudFormation deletes the replaced one.
    iam.delete_policy_version(PolicyArn=arn, VersionId=old["DefaultVersionId"])
    return {"DefaultVersionId": version["VersionId"]}


def _attach(aws: Aws, arn: str, old: Properties, new: Properties) -> None:
    before, after = _principals(old), _principals(new)
    for action, changed in (("detach", before), ("attach", after)):
        for kind, principal in changed:
            if (kind, principal) not in (after if action == "detach" else before):
                method = getattr(aws.client("iam"), f"{action}_{kind}_policy")
                method(**{f"{kind.title()}Name": principal}, PolicyArn=arn)


def delete_managed_policy(aws: Aws, model: Properties) -> None:
    arn, iam = model["PolicyArn"], aws.client("iam")
    with ignoring("NoSuchEntity"):
        entities = iam.list_entities_for_policy(PolicyArn=arn)
        for role in entities["PolicyRoles"]:
            iam.detach_role_policy(RoleName=role["RoleName"], PolicyArn=arn)
        iam.delete_policy(PolicyArn=arn)


def create_instance_profile(aws: Aws, model: Properties) -> Properties:
    profile = aws.call("iam", "create_instance_profile", model)["InstanceProfile"]
    for role in model["Roles"]:
        aws.client("iam").add_role_to_instance_profile(InstanceProfileName=model["InstanceProfileName"], RoleName=role)
    return {"Arn": profile["Arn"]}


def delete_instance_profile(aws: Aws, model: Properties) -> None:
    name, iam = model["InstanceProfileName"], aws.client("iam")
    with ignoring("NoSuchEntity"):
        for role in model["Roles"]:
            iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
        iam.delete_instance_profile(InstanceProfileName=name)


def create_key(aws: Aws, model: Properties) -> Properties:
    tags = [{"TagKey": item["Key"], "TagValue": item["Value"]} for item in model.get("Tags", [])]
    arguments = {**without(model, "KeyPolicy", "Tags"), "Tags": tags}
    policy = {"Policy": _document(model["KeyPolicy"])} if "KeyPolicy" in model else {}
    key = aws.call("kms", "create_key", arguments, **policy)["KeyMetadata"]
    if model.get("EnableKeyRotation"):
        aws.client("kms").enable_key_rotation(KeyId=key["KeyId"])
    return {"KeyId": key["KeyId"], "Arn": key["Arn"]}


def update_key(aws: Aws, old: Properties, new: Properties) -> Properties:
    only_changed(old, new, ("Description", "EnableKeyRotation", "KeyPolicy", "PendingWindowInDays", "Tags"))
    key_id, kms = new["KeyId"], aws.client("kms")
    if "KeyPolicy" in new:
        kms.put_key_policy(KeyId=key_id, PolicyName="default", Policy=_document(new["KeyPolicy"]))
    if new.get("EnableKeyRotation"):
        kms.enable_key_rotation(KeyId=key_id)
    kms.update_key_description(KeyId=key_id, Description=new.get("Description", ""))
    return {}


def delete_key(aws: Aws, model: Properties) -> None:
    window = {"PendingWindowInDays": model["PendingWindowInDays"]} if "PendingWindowInDays" in model else {}
    aws.client("kms").schedule_key_deletion(KeyId=model["KeyId"], **window)


def create_alias(aws: Aws, model: Properties) -> Properties:
    aws.call("kms", "create_alias", model)
    return {}


def update_alias(aws: Aws, _old: Properties, new: Properties) -> Properties:
    aws.call("kms", "update_alias", new)
    return {}


def delete_alias(aws: Aws, model: Properties) -> None:
    with ignoring("NotFoundException"):
        aws.client("kms").delete_alias(AliasName=model["AliasName"])


SERVICES = {
    "AWS::IAM::InstanceProfile": Service(create_instance_profile, delete_instance_profile),
    "AWS::IAM::ManagedPolicy": Service(create_managed_policy, delete_managed_policy, update_managed_policy),
    "AWS::IAM::Policy": Service(create_inline_policy, delete_inline_policy, update_inline_policy),
    "AWS::IAM::Role": Service(create_role, delete_role, update_role),
    "AWS::KMS::Alias": Service(create_alias, delete_alias, update_alias),
    "AWS::KMS::Key": Service(create_key, delete_key, update_key),
}
