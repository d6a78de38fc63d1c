"""The table of create-only properties follows from its sources, and a change of each property is a replacement."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diff import sources
from tests.diff.table import table, written
from trainway.diff.create_only import Verdict, create_only_table, verdict_on

AGAIN = "write the table again with `python -m tests.diff.table`, and read what changed"


def test_the_table_is_what_its_sources_say_today() -> None:
    made, kept = table(), written()
    assert kept["types"].keys() == made["types"].keys(), AGAIN
    for kind, properties in made["types"].items():
        assert kept["types"][kind] == properties, f"{kind}: {AGAIN}"
    without_dates = {
        name: {key: value for key, value in source.items() if key != "compared"}
        for name, source in kept["sources"].items()
    }
    assert without_dates == made["sources"], AGAIN


def test_a_new_property_of_a_source_fails_that_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources.registry

    def more(kind: str) -> dict[str, str]:
        return before(kind) | ({"DesiredSpeed": "always"} if kind == "AWS::EKS::Nodegroup" else {})

    monkeypatch.setattr(sources, "registry", more)
    with pytest.raises(AssertionError, match=r"AWS::EKS::Nodegroup: write the table again"):
        test_the_table_is_what_its_sources_say_today()


def test_every_create_only_property_of_the_registry_replaces() -> None:
    for kind in sources.types():
        for path, word in sources.registry(kind).items():
            # A structure with a part that another source is unsure of is unknown, which counts as a replacement.
            expected = {Verdict.REPLACE} if word == "always" else {Verdict.CONDITIONAL, Verdict.UNKNOWN}
            assert verdict_on(kind, path.split(".")) in expected, f"{kind} {path}"
    assert sum(len(each) for each in create_only_table().types.values()) > 150


@pytest.mark.parametrize(
    ("kind", "path", "verdict"),
    [
        ("AWS::EC2::VPC", "CidrBlock", "replace"),
        ("AWS::EC2::VPC", "InstanceTenancy", "conditional"),
        ("AWS::EC2::PlacementGroup", "Tags.0.Value", "replace"),
        ("AWS::EKS::Cluster", "ResourcesVpcConfig.SubnetIds.0", "in place"),
        ("AWS::EKS::Cluster", "KubernetesNetworkConfig.ServiceIpv4Cidr", "replace"),
        ("AWS::EKS::Cluster", "KubernetesNetworkConfig", "replace"),
        ("AWS::EKS::Cluster", "KubernetesNetworkConfig.ElasticLoadBalancing.Enabled", "in place"),
        ("AWS::EKS::Cluster", "Version", "in place"),
        ("AWS::EKS::Nodegroup", "ScalingConfig.DesiredSize", "in place"),
        ("AWS::FSx::FileSystem", "LustreConfiguration.DeploymentType", "replace"),
        ("AWS::FSx::FileSystem", "LustreConfiguration.PerUnitStorageThroughput", "unknown"),
        ("AWS::FSx::FileSystem", "LustreConfiguration.EfaEnabled", "unknown"),
        ("AWS::FSx::FileSystem", "StorageType", "unknown"),
        ("AWS::FSx::FileSystem", "StorageCapacity", "in place"),
        ("AWS::EC2::Hovercraft", "Skirt", "unknown"),
    ],
)
def test_a_verdict_is_that_of_the_nearest_property_in_the_table(kind: str, path: str, verdict: str) -> None:
    assert verdict_on(kind, path.split(".")).value == verdict


def test_the_entries_name_who_says_so() -> None:
    entry: Any = create_only_table().types["AWS::FSx::FileSystem"]["LustreConfiguration.PerUnitStorageThroughput"]
    assert entry.says == {"cdk": "yes", "service": "updated"}
    assert create_only_table().sources.keys() == {"registry", "cdk", "service"}
