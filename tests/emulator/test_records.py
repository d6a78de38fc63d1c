"""A resource type needs no code of its own: its schema says what it is called and what can be read of it."""

import pytest
import regex

from emulator.registry import records
from emulator.registry.regex_examples import example
from emulator.registry.schema import Properties, load, values_at

REGION = "us-west-2"
NAMES = records.Names("123456789012", REGION, "atlas", "Thing")


def model_of(kind: str, properties: Properties) -> Properties:
    schema = load(kind, REGION)
    return records.complete(schema, {**records.default_names(schema, properties, NAMES), **properties}, NAMES)


def test_ref_is_the_primary_identifier_joined() -> None:
    properties = {"ClusterName": "c", "AddonName": "vpc-cni"}
    schema = load("AWS::EKS::Addon", REGION)
    assert records.physical_id(schema, model_of("AWS::EKS::Addon", properties)) == "c|vpc-cni"


def test_ref_of_a_rule_is_its_name() -> None:
    schema = load("AWS::Events::Rule", REGION)
    assert records.physical_id(schema, model_of("AWS::Events::Rule", {"Name": "nightly"})) == "nightly"


def test_a_cluster_that_only_exists_on_paper_has_an_arn_like_aws() -> None:
    arn = model_of("AWS::SageMaker::Cluster", {"ClusterName": "c"})["ClusterArn"]
    assert regex.fullmatch(r"arn:aws:sagemaker:us-west-2:123456789012:cluster/[a-z0-9]{12}", arn)


@pytest.mark.parametrize(
    "kind", ["AWS::S3::Bucket", "AWS::ECR::Repository", "AWS::IAM::Role", "AWS::SageMaker::Cluster"]
)
def test_made_up_names_satisfy_the_schema(kind: str) -> None:
    schema = load(kind, REGION)
    names = records.default_names(schema, {}, NAMES)
    assert names
    assert [item for item in schema.problems(names) if item.path.strip("/") in names] == []


@pytest.mark.parametrize(
    "kind",
    ["AWS::APS::Workspace", "AWS::Budgets::Budget", "AWS::CodePipeline::Pipeline", "AWS::EKS::PodIdentityAssociation",
     "AWS::FSx::DataRepositoryAssociation", "AWS::SageMaker::ClusterSchedulerConfig", "AWS::SageMaker::ComputeQuota"],
)  # fmt: skip
def test_every_read_only_attribute_has_a_value_in_its_published_form(kind: str) -> None:
    schema, model = load(kind, REGION), model_of(kind, {})
    for name in schema.read_only:
        values = values_at(model, name)
        assert values, name
        pattern = schema.definition(name).get("pattern")
        assert pattern is None or regex.search(pattern, values[0]), (name, values[0])


def test_getatt_reads_what_aws_sets_and_not_what_the_template_sets() -> None:
    schema = load("AWS::EKS::Cluster", REGION)
    assert records.has_attribute(schema, "CertificateAuthority.Data", REGION)
    assert not records.has_attribute(schema, "RoleArn", REGION)
    assert records.has_attribute(load("AWS::SSM::Parameter", REGION), "Value", REGION)  # one of the types that may


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-f0-9]{8}$",
        r"^(a|b)-\d+\.x?$",
        r"[^a]{3,5}",
        r"^(?!-)[\w-]+$",
        r"^[a-z]+(?<!-)$",
        r"^.*$",
        r"^([a-z0-9A-Z]*)$",
        r"^\+\d{2}( |$)",
    ],
)
def test_an_example_matches_its_pattern(pattern: str) -> None:
    found = example(pattern)
    example.cache_clear()
    assert regex.search(pattern, found) and found.isprintable()
    assert example(pattern) == found


@pytest.mark.parametrize("pattern", [r"^[\p{Print}&&[^|:/]]+$", r"^\n+$", "("])
def test_a_pattern_without_an_example_that_can_be_printed_has_an_empty_one(pattern: str) -> None:
    assert example(pattern) == ""
