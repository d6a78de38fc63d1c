"""What EC2 answers today is compared with the catalogue, and every difference is one line."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data_files import recorded_instance_types
from tests.moto_server import moto_server
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.facts.cpu_instances import COLUMNS, FILE, as_text
from trainway.spec.refresh import Difference, differences, facts_of_answer, quota_differences
from trainway.spec.refresh_cpu_instances import hyperpod_names, rows_of

ROOT = Path(__file__).parents[2]
CATALOGUE = load_catalogue()
Data = dict[str, Any]
API = recorded_instance_types()


def differences_after(name: str, path: list[str | int], value: Any) -> list[str]:
    """The differences from one recorded answer in which one value is replaced."""
    answer = copy.deepcopy(API[name])
    holder = answer
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return [str(difference) for difference in differences(CATALOGUE, [answer])]


def test_the_recorded_answers_differ_in_nothing() -> None:
    assert differences(CATALOGUE, API.values()) == []


def test_each_known_disagreement_is_one() -> None:
    believing_ec2 = differences(Catalogue(CATALOGUE, left_out=CATALOGUE.left_out), API.values())
    listed = [
        (name, fact, value)
        for disagreement in CATALOGUE.disagreements
        for name in disagreement.types
        for fact, value in disagreement.facts.items()
    ]
    assert sorted(map(str, listed)) == sorted(str((d.instance_type, d.fact, d.aws)) for d in believing_ec2)
    assert all(disagreement.reason for disagreement in CATALOGUE.disagreements)


def test_what_is_left_out_exists_or_is_announced() -> None:
    shown = differences(Catalogue(CATALOGUE, CATALOGUE.disagreements), API.values())
    assert {difference.instance_type for difference in shown} == {"inf1.24xlarge", "p3dn.24xlarge"}
    assert {difference.fact for difference in shown} == {"type"}
    families = {name.partition(".")[0] for name in API}
    assert set(CATALOGUE.left_out) - families == {"trn3", "p6e-gb300"}
    assert not {name for name in CATALOGUE if CATALOGUE.why_left_out(name)}


NETWORK = "NetworkInfo"
CHIP_MEMORY: list[str | int] = ["NeuronInfo", "NeuronDevices", 0, "MemoryInfo", "SizeInMiB"]


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (["VCpuInfo", "DefaultVCpus"], 96, "vcpus: ours 192, AWS's 96"),
        (["MemoryInfo", "SizeInMiB"], 2**20, "memory_gib: ours 2048, AWS's 1024"),
        (["ProcessorInfo", "SupportedArchitectures"], ["arm64"], "architecture: ours x86_64, AWS's arm64"),
        (["GpuInfo", "Gpus", 0, "Count"], 4, "accelerator: ours 8 × nvidia H100, AWS's 4 × nvidia H100"),
        (["InstanceStorageInfo"], {}, "instance_store: ours 8 × 3800 GB, AWS's none"),
        ([NETWORK, "NetworkPerformance"], "Swift", "network_gbps: ours 3200, AWS's none"),
        ([NETWORK, "MaximumNetworkCards"], 16, "network_cards: ours 32, AWS's 16"),
        ([NETWORK, "Ipv4AddressesPerInterface"], 64, "ipv4_addresses_per_interface: ours 50, AWS's 64"),
        ([NETWORK, "EfaInfo"], {}, "efa_interfaces: ours 32, AWS's 0"),
        (["SupportedUsageClasses"], ["spot"], "markets: ours capacity-block, on-demand, spot, AWS's spot"),
        (
            [NETWORK, "NetworkCards", 1, "InterfaceTypes"],
            ["interface"],
            "card 1, device 0: ours efa-only, AWS's 2 of interface",
        ),
    ],
)
def test_a_difference_is_one_line(path: list[str | int], value: Any, line: str) -> None:
    assert differences_after("p5.48xlarge", path, value) == [f"p5.48xlarge: {line}"]


def test_where_ec2_is_not_believed_another_answer_than_the_known_one_is_a_difference() -> None:
    assert differences_after("trn2.48xlarge", CHIP_MEMORY, 512 * 1024) == []
    changed = differences_after("trn2.48xlarge", CHIP_MEMORY, 128 * 1024)
    assert changed == ["trn2.48xlarge: accelerator_memory_gib: ours 96, AWS's 128"]


def test_an_accelerated_type_with_efa_that_the_catalogue_lacks_is_a_difference() -> None:
    answer = {**API["p5.48xlarge"], "InstanceType": "p9.96xlarge"}
    assert differences(CATALOGUE, [answer]) == [Difference("p9.96xlarge", "type", None, "8 × nvidia H100")]


def test_types_without_efa_or_accelerators_are_passed_over() -> None:
    assert differences(CATALOGUE, [API["t3.large"], API["g5g.xlarge"]]) == []
    assert "t3.large" not in CATALOGUE and "g5g.xlarge" not in CATALOGUE


def test_the_file_of_types_without_accelerators_is_what_ec2_answered() -> None:
    written = json.loads(FILE.read_text(encoding="utf-8"))
    rows = rows_of(API.values(), hyperpod_names())
    assert rows == written["types"] and written["columns"] == list(COLUMNS)
    assert as_text(written["sources"], rows) == FILE.read_text(encoding="utf-8")
    assert len(rows) > 900


def test_a_type_that_ec2_has_changed_is_another_line() -> None:
    answer = copy.deepcopy(API["m7i.large"])
    answer["VCpuInfo"]["DefaultVCpus"] = 4
    assert rows_of([answer], ["ml.m7i.large"])["m7i.large"][:3] == ["x86_64", 4, 8]
    assert str(differences(CATALOGUE, [answer])[0]) == "m7i.large: vcpus: ours 2, AWS's 4"
    assert rows_of([API["m7i.large"]], [])["m7i.large"][-1] == 0


def test_every_recorded_answer_can_be_read() -> None:
    for name, answer in API.items():
        if answer["NetworkInfo"].get("NetworkCards"):
            assert facts_of_answer(answer)["vcpus"], name


def test_a_quota_of_another_code_is_a_difference_and_so_is_one_that_the_catalogue_lacks() -> None:
    codes = {instance.hyperpod_quota_name or "": instance.hyperpod_quota_code or "" for instance in CATALOGUE.values()}
    agreeing = {name: code for name, code in codes.items() if code}
    assert len(agreeing) > 50
    assert quota_differences(CATALOGUE, agreeing) == []
    changed = {"ml.p5.48xlarge for cluster usage": "L-00000000", "ml.trn2.48xlarge for cluster usage": "L-11111111"}
    assert sorted(map(str, quota_differences(CATALOGUE, agreeing | changed | {"Notebooks": "L-22222222"}))) == [
        "p5.48xlarge: hyperpod_quota_code: ours L-8762A75F, AWS's L-00000000",
        "trn2.48xlarge: hyperpod_quota_code: ours none, AWS's L-11111111",
    ]


# --- the program


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An EC2 that gives the recorded answers."""
    with moto_server() as url:
        yield url


def run(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m trainway.spec.refresh` in an environment that has no other AWS settings."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nobody = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": str(tmp_path / "none")}
    nobody["AWS_SHARED_CREDENTIALS_FILE"] = str(tmp_path / "none")
    return subprocess.run(
        [sys.executable, "-m", "trainway.spec.refresh"],
        env={**bare, **nobody, **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-west-2"}


@pytest.mark.exhaustive
def test_the_program_is_silent_and_succeeds_when_ec2_agrees(endpoint: str, tmp_path: Path) -> None:
    ran = run(tmp_path, AWS_ENDPOINT_URL=endpoint, **CREDENTIALS)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    compared = len(CATALOGUE) - 1
    assert f"{compared} types compared with EC2 in us-west-2, 0 differences" in ran.stderr
    assert "not offered there: p6e-gb200.36xlarge" in ran.stderr


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        pytest.param({"AWS_DEFAULT_REGION": "us-west-2"}, "Unable to locate credentials", marks=pytest.mark.exhaustive),
        pytest.param(
            {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"},
            "You must specify a region",
            marks=pytest.mark.exhaustive,
        ),
        ({**CREDENTIALS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect to the endpoint URL"),
    ],
    ids=["no credentials", "no region", "no network"],
)
def test_the_program_says_what_it_needs(tmp_path: Path, environment: dict[str, str], why: str) -> None:
    ran = run(tmp_path, **environment)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("EC2 could not be asked for its instance types\n")
    assert why in ran.stderr
    assert "AWS_DEFAULT_REGION" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_program_prints_the_differences_and_fails(endpoint: str, tmp_path: Path) -> None:
    program = (
        "import sys; from trainway.spec import refresh; from trainway.spec.facts.catalogue import load_catalogue\n"
        "p5 = load_catalogue()['p5.48xlarge'].model_copy(update={'vcpus': 96})\n"
        "refresh.load_catalogue = lambda: type(load_catalogue())({'p5.48xlarge': p5}, left_out=None)\n"
        "sys.exit(refresh.main())\n"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {**bare, **CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 1, ran.stderr
    assert "p5.48xlarge: vcpus: ours 96, AWS's 192" in ran.stdout.splitlines()
