"""What AWS does not have in a Region or zone is refused, with where it has it, unless the file accepts the rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generators.rules_page import PAGE, page
from tests.command_line import Completed, run_trainway
from tests.data_files import read_yaml
from tests.known_day import ON_KNOWN_DAY
from tests.synthesis import ROOT
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.slurm_settings import slurm_settings
from trainway.spec.loader import load_platform
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.problems import SpecError
from trainway.spec.rule import PUBLISHED_RULES, RULES, name_of

CASES = read_yaml(Path(__file__).with_name("region_mistakes.yaml"))
GOOD: dict[str, Any] = CASES["good"]
# A mistake for each rule that a platform can accept, which it is the only problem of.
BY_RULE = {
    "budgets-are-in-the-region": "a budget where CloudFormation has none",
    "collectors-are-in-the-region": "collected metrics where AWS has no collector",
    "copies-are-in-regions-that-exist": "a copy of the image in a Region that AWS does not have",
    "eks-takes-the-zones": "a zone that EKS refuses",
    "fsx-has-such-file-systems-there": "Lustre with EFA where there is none",
    "hyperpod-is-in-the-region": "HyperPod where there is none",
    "slurm-knows-the-settings": "a key that slurm.conf does not have",
    "the-region-exists": "a Region that AWS does not have",
    "types-are-offered-in-the-zone": "P5 in Ireland",
    "types-are-sold-on-demand": "P5e on demand where it is sold as Capacity Blocks alone",
    "zones-are-of-the-region": "a zone that the Region does not have",
}


def write(directory: Path, changes: dict[str, Any]) -> Path:
    file = directory / "platform.yaml"
    keys = {key: value for key, value in (GOOD | changes).items() if value is not None}
    file.write_text(yaml.safe_dump(keys, sort_keys=False), encoding="utf-8")
    return file


def test_the_good_file_is_good(tmp_path: Path) -> None:
    assert load_platform(write(tmp_path, {})).region == "us-west-2"


def test_at_least_sixty_mistakes_are_planted_and_no_two_are_the_same() -> None:
    changes = [json.dumps(case["change"], sort_keys=True) for case in CASES["mistakes"].values()]
    assert len(set(changes)) == len(changes) >= 60


@pytest.mark.parametrize("mistake", CASES["mistakes"])
def test_what_aws_does_not_have_is_refused(mistake: str, tmp_path: Path) -> None:
    case = CASES["mistakes"][mistake]
    with pytest.raises(SpecError) as caught:
        load_platform(write(tmp_path, case["change"]))
    for part in case["says"]:
        assert part in str(caught.value)
    assert all(problem.remedy and problem.line for problem in caught.value.problems)


# What a lock of a deployed platform breaks, tests/test_kubernetes_upgrade.py accepts.
OF_A_LOCK = {"the-nodes-have-the-version-that-the-control-plane-leaves"}


def test_every_rule_about_aws_has_a_mistake() -> None:
    assert PUBLISHED_RULES.keys() == BY_RULE.keys() | OF_A_LOCK


@pytest.mark.parametrize("rule", BY_RULE)
def test_a_rule_about_aws_is_named_and_can_be_accepted(rule: str, tmp_path: Path) -> None:
    changes = CASES["mistakes"][BY_RULE[rule]]["change"]
    with pytest.raises(SpecError) as caught:
        load_platform(write(tmp_path, changes))
    assert {problem.accept_as for problem in caught.value.problems} == {rule}
    assert f"accept the rule {rule}" in str(caught.value)
    accepted = {"accept": [{"rule": rule, "because": "the console sells it since yesterday"}]}
    assert load_platform(write(tmp_path, changes | accepted)).accept[0].rule == rule
    assert load_platform(write(tmp_path, changes), accept=[rule]).accept == ()


def test_all_zones_are_told_beside_a_type_that_is_wrong(tmp_path: Path) -> None:
    group = {"name": "train", "instance_type": "p5.48xlrge", "count": 1}
    with pytest.raises(SpecError) as caught:
        load_platform(write(tmp_path, {"zones": ["usw2-az9", "usw2-az8"], "node_groups": [group]}))
    assert {problem.key for problem in caught.value.problems} == {
        ("zones", 0),
        ("zones", 1),
        ("node_groups", 0, "instance_type"),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "atlas-aws"},
        {
            "region": "us-east-1",
            "zones": ["use1-az1", "use1-az2"],
            "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1, "zone": "use1-atl2-az1"}],
        },
        {
            "region": "ap-southeast-3",
            "zones": ["apse3-az1", "apse3-az2"],
            "storage": {"lustre": {"storage_class": "scratch", "efa": False, "compression": False}},
        },
        {"storage": {"lustre": {"import_from": ["s3://atlas-data-111122223333-us-west-2-an/raw/"]}}},
        {"storage": {"lustre": {"import_from": ["s3://atlas-data/corpus/"]}}},
        {
            "orchestrator": "hyperpod-slurm",
            "kubernetes": None,
            "node_groups": [{"name": "defaults", "instance_type": "p5.48xlarge", "count": 1}],
            "slurm": {"settings": {"messagetimeout": "30", "PrologSlurmctld": "/bin/true", "DebugFlags": "Gres"}},
        },
    ],
    ids=[
        "a name with aws in it",
        "P5 in Atlanta",
        "scratch in Jakarta",
        "another prefix",
        "another bucket",
        "known settings",
    ],
)
def test_what_only_resembles_a_mistake_is_accepted(changes: dict[str, Any], tmp_path: Path) -> None:
    load_platform(write(tmp_path, changes))


def test_the_settings_that_the_platform_itself_writes_are_known() -> None:
    from lifecycle_scripts.slurm_conf import SETTINGS
    from trainway.spec.slurm.rules import HEALTH_SETTINGS, HYPERPODS_SETTINGS, LOGIN_SETTINGS

    known = {name.lower() for name in slurm_settings().keys}
    ours = {*SETTINGS, *HEALTH_SETTINGS, *LOGIN_SETTINGS, *HYPERPODS_SETTINGS} - {"Include"}
    assert {name for name in ours if name.lower() not in known} == set()


def trainway(*words: str) -> Completed:
    return run_trainway(*words, directory=ROOT)


def test_check_accepts_a_rule_by_its_name_and_no_other_word(tmp_path: Path) -> None:
    file = write(tmp_path, CASES["mistakes"]["P5 in Ireland"]["change"])
    assert trainway("check", str(file), *ON_KNOWN_DAY).returncode == 2
    accepted = trainway("check", str(file), *ON_KNOWN_DAY, "--accept", "types-are-offered-in-the-zone")
    assert (accepted.returncode, "no problems" in accepted.stdout) == (0, True), accepted.stderr
    wrong = trainway("check", str(file), *ON_KNOWN_DAY, "--accept", "eks-has-its-zones")
    assert wrong.returncode == 2 and "the-region-exists" in wrong.stderr and "Traceback" not in wrong.stderr


def test_every_rule_is_listed() -> None:
    listed = json.loads(trainway("rules", "--json").stdout)
    assert {each["name"] for each in listed} == set(map(name_of, RULES))
    assert {each["name"] for each in listed if each["published"]} == set(PUBLISHED_RULES)
    assert all(each["what"] for each in listed)


def test_the_page_has_every_rule() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.generators.rules_page`"


def test_a_local_zone_is_the_first_zone_or_that_of_a_group(tmp_path: Path) -> None:
    """Both files have the same subnets: nodes and file servers are there, and the control plane is in the Region."""
    east = {"region": "us-east-1", "storage": {"lustre": {"capacity_tib": 1.2}}}
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 1}
    first = load_platform(
        write(tmp_path, east | {"zones": ["use1-atl2-az1", "use1-az1", "use1-az2"], "node_groups": [group]})
    )
    of_group = load_platform(
        write(
            tmp_path,
            east | {"zones": ["use1-az1", "use1-az2"], "node_groups": [group | {"zone": "use1-atl2-az1"}]},
        )
    )
    plans = [plan_addresses(platform, load_catalogue()) for platform in (first, of_group)]
    assert plans[0] == plans[1]
    zones = {(subnet.role.value, subnet.zone) for subnet in plans[0].subnets}
    assert {zone for role, zone in zones if role in ("nodes", "storage")} == {"use1-atl2-az1"}
    assert {zone for role, zone in zones if role in ("public", "cluster")} == {"use1-az1", "use1-az2"}
