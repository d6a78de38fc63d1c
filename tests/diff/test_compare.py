"""A replacement is found by every create-only property, and is followed through all stacks that refer to it."""

from __future__ import annotations

from typing import Any

import pytest

from trainway.diff.answers import with_answers
from trainway.diff.change_sets import Answered
from trainway.diff.compare import Action, ResourceDiff, compare
from trainway.diff.costs import cost_of
from trainway.diff.create_only import Verdict, create_only_table
from trainway.diff.protected import instead_of, is_protected, remedies
from trainway.diff.signing import rule_that_stays
from trainway.diff.tokens import Id, StackTemplate

TABLE = create_only_table().types
REPLACING = [
    (kind, path) for kind, each in TABLE.items() for path, entry in each.items() if entry.verdict is not Verdict.UPDATE
]


def template(resources: dict[str, Any], **rest: Any) -> StackTemplate:
    return {"Resources": resources, **rest}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def at(path: str, value: str) -> dict[str, Any]:
    """Return properties with a value at a dotted path."""
    name, _, rest = path.partition(".")
    return {name: at(rest, value) if rest else value}


def actions(deployed: dict[str, StackTemplate], wanted: dict[str, StackTemplate]) -> dict[str, Action]:
    return {each.id.logical_id: each.action for each in compare(deployed, wanted)}


def only(deployed: StackTemplate, wanted: StackTemplate) -> ResourceDiff:
    (found,) = compare({"s": deployed}, {"s": wanted})
    return found


def test_the_table_has_every_property_that_this_file_plants() -> None:
    assert len(REPLACING) > 150
    assert set(remedies()) - set(TABLE) == {"instance group"}


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in REPLACING}))
def test_a_change_of_a_create_only_property_is_a_replacement_and_refused_where_data_or_nodes_are(kind: str) -> None:
    running = {"ScalingConfig": {"DesiredSize": 2}} if kind == "AWS::EKS::Nodegroup" else {}
    for path in (path for owner, path in REPLACING if owner == kind):
        before, after = (template({"R": resource(kind, **running, **at(path, value))}) for value in ("before", "after"))
        found = only(before, after)
        assert found.action is Action.REPLACED, path
        assert ".".join(found.edits[0].path) == path
        protected = is_protected(found, [Id("s", "User")], {found.id: found})
        assert protected is (kind in remedies()), path
        if protected:
            assert instead_of(found), path


def test_another_property_changes_in_place() -> None:
    found = only(
        template({"N": resource("AWS::EKS::Nodegroup", ScalingConfig={"DesiredSize": 1})}),
        template({"N": resource("AWS::EKS::Nodegroup", ScalingConfig={"DesiredSize": 2})}),
    )
    assert found.action is Action.CHANGED


def network(zone: str) -> StackTemplate:
    subnet = resource("AWS::EC2::Subnet", AvailabilityZoneId=zone)
    exported = {"Value": {"Ref": "Subnet"}, "Export": {"Name": "network:Subnet"}}
    return template({"Subnet": subnet}, Outputs={"Subnet": exported})


def storage(**subnet: Any) -> StackTemplate:
    system = resource("AWS::FSx::FileSystem", FileSystemType="LUSTRE", SubnetIds=[subnet])
    link = resource("AWS::FSx::DataRepositoryAssociation", FileSystemId={"Ref": "Files"})
    alarm = resource("AWS::CloudWatch::Alarm", Dimensions=[{"Name": "FileSystemId", "Value": {"Ref": "Files"}}])
    return template({"Files": system, "Link": link, "Alarm": alarm})


IMPORT = {"Fn::ImportValue": "network:Subnet"}


def test_a_replaced_subnet_replaces_what_is_in_it_in_another_stack_whose_template_did_not_change() -> None:
    deployed = {"network": network("a"), "storage": storage(**IMPORT)}
    wanted = {"network": network("b"), "storage": storage(**IMPORT)}
    assert actions(deployed, wanted) == {
        "Subnet": Action.REPLACED,
        "Files": Action.REPLACED,
        "Link": Action.REPLACED,
        "Alarm": Action.CHANGED,
    }
    files = next(each for each in compare(deployed, wanted) if each.id.logical_id == "Files")
    assert files.edits[0].follows == Id("network", "Subnet")


@pytest.mark.parametrize(
    "reference",
    [IMPORT, {"Fn::GetStackOutput": {"StackName": "network", "Region": "us-west-2", "OutputName": "Subnet"}}],
    ids=["import", "output"],
)
def test_another_way_to_refer_to_the_same_subnet_is_no_change(reference: dict[str, Any]) -> None:
    deployed = {"network": network("a"), "storage": storage(**IMPORT)}
    assert actions(deployed, {"network": network("a"), "storage": storage(**reference)}) == {}


def test_a_parameter_of_ssm_leads_to_what_it_holds() -> None:
    def stacks(zone: str) -> dict[str, StackTemplate]:
        above = network(zone)
        above["Resources"]["Told"] = resource("AWS::SSM::Parameter", Name="/subnet", Value={"Ref": "Subnet"})
        below = storage(Ref="Told")
        below["Parameters"] = {"Told": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/subnet"}}
        return {"network": above, "storage": below}

    assert actions(stacks("a"), stacks("b"))["Files"] is Action.REPLACED
    assert actions(stacks("a"), stacks("a")) == {}


def nodes(user_data: str) -> StackTemplate:
    launch = resource("AWS::EC2::LaunchTemplate", LaunchTemplateData={"UserData": user_data})
    version = {"Fn::GetAtt": ["Launch", "LatestVersionNumber"]}
    group = resource("AWS::EKS::Nodegroup", LaunchTemplate={"Id": {"Ref": "Launch"}, "Version": version})
    return template({"Launch": launch, "Group": group})


def test_a_new_version_of_a_launch_template_changes_the_group_and_its_id_does_not() -> None:
    found = {each.id.logical_id: each for each in compare({"s": nodes("a")}, {"s": nodes("b")})}
    assert found["Group"].action is Action.CHANGED
    assert [edit.path for edit in found["Group"].edits] == [("LaunchTemplate", "Version")]


def hyperpod(*groups: dict[str, Any]) -> StackTemplate:
    return template({"Cluster": resource("AWS::SageMaker::Cluster", ClusterName="c", InstanceGroups=list(groups))})


def of_type(name: str, count: int, kind: str = "ml.p5.48xlarge") -> dict[str, Any]:
    return {"InstanceGroupName": name, "InstanceCount": count, "InstanceType": kind}


def test_instance_groups_are_compared_by_name_and_protected_like_node_groups() -> None:
    deployed = {"s": hyperpod(of_type("a", 2), of_type("b", 1), of_type("c", 0))}
    assert actions(deployed, {"s": hyperpod(of_type("c", 0), of_type("b", 1), of_type("a", 2))}) == {}
    found = {
        each.id.logical_id: each for each in compare(deployed, {"s": hyperpod(of_type("a", 2, "ml.p5e.48xlarge"))})
    }
    assert {name: each.action for name, each in found.items()} == {
        "Cluster/a": Action.REPLACED,
        "Cluster/b": Action.DELETED,
        "Cluster/c": Action.DELETED,
    }
    refused = [name for name, each in found.items() if is_protected(each, (), {})]
    assert refused == ["Cluster/a", "Cluster/b"], "no node runs in c"


@pytest.mark.parametrize(
    ("change", "action", "cost"),
    [
        ({"InstanceCount": 3}, Action.CHANGED, "1 node more"),
        ({"LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-a/b"}}, Action.CHANGED, ""),
        ({"OnStartDeepHealthChecks": ["InstanceStress"]}, Action.CHANGED, ""),
        ({"ExecutionRole": "arn:aws:iam::111122223333:role/a"}, Action.REPLACED, "2 nodes stop, and the jobs on them"),
        ({"InstanceType": "ml.p5e.48xlarge"}, Action.REPLACED, "2 nodes stop, and the jobs on them"),
        ({"ThreadsPerCore": 1}, Action.REPLACED, "2 nodes stop, and the jobs on them"),
        ({"OverrideVpcConfig": {"Subnets": ["subnet-1"]}}, Action.REPLACED, "2 nodes stop, and the jobs on them"),
        (
            {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 1000}}]},
            Action.CHANGED,
            "AWS does not say what an update of InstanceStorageConfigs does: "
            "it may be refused, or change new nodes only",
        ),
    ],
)
def test_an_instance_group_is_updated_as_the_pages_of_hyperpod_say(
    change: dict[str, Any], action: Action, cost: str
) -> None:
    (found,) = compare({"s": hyperpod(of_type("a", 2))}, {"s": hyperpod(of_type("a", 2) | change)})
    assert (found.action, cost_of(found)) == (action, cost)


def answer(replacement: str, **detail: Any) -> dict[str, Answered]:
    target = {"Attribute": "Properties", "Name": "Dimensions", "RequiresRecreation": "Conditionally"}
    change = {
        "LogicalResourceId": "Alarm", "ResourceType": "AWS::CloudWatch::Alarm", "Action": "Modify",
        "Replacement": replacement, "Details": [{"Target": target, **detail}],
    }  # fmt: skip
    return {"s": Answered({"Alarm": change})}


def test_a_conditional_replacement_that_follows_a_resource_that_stays_is_a_false_alarm() -> None:
    alarm = answer("Conditional", Evaluation="Dynamic", CausingEntity="Files.Id", ChangeSource="ResourceAttribute")
    files = ResourceDiff(Id("s", "Files"), "AWS::FSx::FileSystem", Action.CHANGED)
    assert with_answers([files], alarm) == [files]
    replaced = ResourceDiff(Id("s", "Files"), "AWS::FSx::FileSystem", Action.REPLACED)
    assert [each.action for each in with_answers([replaced], alarm)] == [Action.REPLACED, Action.REPLACED]


def test_what_only_a_change_set_knows_is_told() -> None:
    static = answer("True", Evaluation="Static", ChangeSource="ParameterReference")
    (found,) = with_answers([], static)
    assert (found.id, found.action) == (Id("s", "Alarm"), Action.REPLACED)


def vpc(tenancy: str) -> StackTemplate:
    return template({"Alarm": resource("AWS::EC2::VPC", InstanceTenancy=tenancy)})


@pytest.mark.parametrize(("replacement", "action"), [("False", Action.CHANGED), ("Conditional", Action.REPLACED)])
def test_a_change_set_settles_what_replaces_sometimes(replacement: str, action: Action) -> None:
    diffs = compare({"s": vpc("dedicated")}, {"s": vpc("default")})
    (found,) = with_answers(diffs, answer(replacement, Evaluation="Static"))
    assert found.action is action


def test_a_change_set_does_not_settle_what_its_type_has_no_handlers_for() -> None:
    def files(throughput: int) -> StackTemplate:
        lustre = {"PerUnitStorageThroughput": throughput}
        return template({"Alarm": resource("AWS::FSx::FileSystem", LustreConfiguration=lustre)})

    (found,) = with_answers(compare({"s": files(250)}, {"s": files(500)}), answer("False"))
    assert found.action is Action.REPLACED


def test_what_is_retained_is_said_to_be_kept() -> None:
    bucket = {"B": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}, "T": resource("AWS::SNS::Topic")}
    found = only(template(bucket), template({"T": resource("AWS::SNS::Topic")}))
    assert (found.action, found.kept) == (Action.DELETED, True)


def test_a_subnet_whose_users_leave_with_it_is_not_in_use() -> None:
    subnet = ResourceDiff(Id("s", "Subnet"), "AWS::EC2::Subnet", Action.DELETED)
    user = ResourceDiff(Id("s", "Group"), "AWS::EKS::Nodegroup", Action.DELETED)
    assert not is_protected(subnet, [user.id], {user.id: user})
    assert is_protected(subnet, [user.id], {})
    assert not is_protected(subnet, [], {})


def signed(sign: str | None) -> StackTemplate:
    """Return the stack of an image with `sign: true`, with `sign: false`, or without the key."""
    told = {"true": "arn:aws:signer:us-west-2:111122223333:/signing-profiles/a", "false": "none"}.get(sign or "")
    variables = [{"Name": "IMAGE_TAG", "Value": "c0ffee"}]
    variables += [{"Name": "SIGNING_PROFILE", "Value": told}] if told else []
    project = resource("AWS::CodeBuild::Project", Environment={"EnvironmentVariables": variables})
    profile = {"Profile": resource("AWS::Signer::SigningProfile")} if sign == "true" else {}
    return template({"Build": project, **profile})


@pytest.mark.parametrize(("after", "stays"), [("false", False), (None, True)])
def test_a_signing_rule_stays_unless_the_file_says_that_nothing_is_signed(after: str | None, stays: bool) -> None:
    diffs = compare({"image": signed("true")}, {"image": signed(after)})
    (profile,) = [each for each in diffs if each.kind == "AWS::Signer::SigningProfile"]
    assert ("stays in the registry" in rule_that_stays(profile, diffs)) is stays
    assert [rule_that_stays(each, diffs) for each in diffs if each is not profile] == [""]
    assert "`sign: false`" in rule_that_stays(profile, ()), "a destroy has no other stack to look at"
