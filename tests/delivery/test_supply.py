"""A person with the internet brings in, by one command, all that a closed network cannot fetch."""

import json
import shutil
from pathlib import Path

import pytest

from delivery.content_hash import image_hash
from tests.delivery.conftest import ECR, EKS, EVERY_CHART, HYPERPOD_EKS, REGISTRY
from tests.representatives import with_representatives

ROOT = Path(__file__).resolve().parents[2]

IMAGE = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee"}
OUTSIDE = (
    ["curl"],
    ["git"],
    ["helm", "pull"],
    ["helm", "package"],
    ["helm", "push"],
    ["docker", "buildx", "imagetools"],
)

pytestmark = pytest.mark.usefixtures("helm_archive")


# What SSM holds, with the charts and the tag to be filled in.
SSM = r"""
if [[ "$1 $2" == "ssm get-parameter" ]]; then
  [[ "$4" == /trainway/atlas/delivery/supply ]] || { echo "ParameterNotFound" >&2; exit 254; }
  printf '{"MIRROR_REGISTRY": "%s", "MIRROR_PREFIX": "atlas/mirror", "MIRROR_BUCKET_URI": "s3://bucket/mirror",
    "BILLS_URI": "s3://bucket/bills", "CHARTS": "%s", "BASE_TAG": "%s",
    "NETWORK_ACCESS": "closed", "CONTAINERS": "'"${DEPLOYED_CONTAINERS:-none}"'",
    "EXPORTERS": "'"${DEPLOYED_EXPORTERS:-false}"'", "COLLECTOR": "'"${DEPLOYED_COLLECTOR:-false}"'",
    "IMAGE_ARGUMENTS": "{\\"VARIANT\\": \\"cuda\\", \\"SOURCE_DATE_EPOCH\\": \\"1767225600\\"}\\n"}' \
    "$REGISTRY" "$DEPLOYED" "$DEPLOYED_BASE"
fi
"""


@pytest.fixture
def supply(aws):
    aws.stand_in("aws", SSM + ECR)
    aws.stand_in("uname", "echo Linux x86_64\n")
    (aws.root / "image.json").unlink()
    tag = image_hash(aws.root, "base", {"VARIANT": "cuda", "SOURCE_DATE_EPOCH": "1767225600"})
    aws.environment |= {
        "DEPLOYED_BASE": tag,
        "BASE_TAG": tag,
        "REGISTRY": REGISTRY,
        "SUPPLY_PARAMETER": "/trainway/atlas/delivery/supply",
    }
    return aws


def outside(calls: list[list[str]]) -> list[list[str]]:
    """The calls that fetch from the internet, or that push what was fetched."""
    return [call for call in calls if any(call[: len(words)] == words for words in OUTSIDE)]


@pytest.mark.parametrize(("charts", "count"), [pytest.param(EKS, 3, marks=pytest.mark.exhaustive), (HYPERPOD_EKS, 4)])
def test_a_kubernetes_platform_gets_images_charts_helm_and_the_base(supply, charts: str, count: int):
    done = supply.run("supply.sh", DEPLOYED=charts)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all that comes from the internet; the platform can be deployed\n")
    assert len(supply.called("docker", "buildx", "imagetools", "create")) == 4
    assert len(supply.called("helm", "push")) == count
    [build] = supply.pushed
    assert build[build.index("--build-arg") + 1] == "VARIANT=cuda"
    assert (
        build[build.index("--tag") + 1]
        == f"{REGISTRY}/atlas/mirror/training-base:{supply.environment['DEPLOYED_BASE']}"
    )


def test_a_slurm_platform_gets_the_base_alone(supply):
    done = supply.run("supply.sh", DEPLOYED="")
    assert done.returncode == 0, done.stderr
    assert "the platform can be deployed" in done.stdout
    assert len(supply.pushed) == 1
    bill, provenance = supply.called("aws", "s3")
    assert bill[4] == f"s3://bucket/bills/{supply.environment['DEPLOYED_BASE']}.spdx.json"
    assert provenance[4].startswith("s3://bucket/bills/") and provenance[4].endswith(".provenance.json")
    assert outside(supply.calls) == []


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        ({"DEPLOYED_CONTAINERS": "wanted"}, "containers"),
        pytest.param({"DEPLOYED_EXPORTERS": "true"}, "exporters", marks=pytest.mark.exhaustive),
        pytest.param(
            {"DEPLOYED_CONTAINERS": "required", "DEPLOYED_EXPORTERS": "true"},
            "containers exporters",
            marks=pytest.mark.exhaustive,
        ),
        ({"DEPLOYED_EXPORTERS": "true", "DEPLOYED_COLLECTOR": "true"}, "exporters collector"),
    ],
)
def test_a_slurm_platform_gets_the_packages_of_its_nodes_into_the_checkout(supply, nodes: dict[str, str], parts: str):
    supply.root.joinpath("delivery/node_packages.sh").write_text('echo "$NETWORK_ACCESS $*" >"$HOME/packages"\n')
    done = supply.run("supply.sh", DEPLOYED="", **nodes)
    assert done.returncode == 0, done.stderr
    checkout = supply.root / "delivery/../lifecycle_scripts/yours/packages"
    assert (supply.root / "packages").read_text() == f"private {checkout} {parts}\n"


def test_a_parameter_that_does_not_say_which_charts_is_not_taken_for_none(supply):
    holds(supply, {}, without="CHARTS")
    done = supply.run("supply.sh")
    assert done.returncode == 1
    assert "/trainway/atlas/delivery/supply does not say which charts" in done.stderr
    assert outside(supply.calls) + supply.called("docker", "buildx", "build") == []


@pytest.mark.parametrize("charts", with_representatives([EKS, HYPERPOD_EKS, EVERY_CHART], [HYPERPOD_EKS]))
def test_what_was_brought_in_is_all_that_a_closed_network_needs(supply, charts: str):
    supply.run("supply.sh", DEPLOYED=charts)
    before = len(supply.calls)
    for script in ("mirror.sh", "image.sh"):
        done = supply.run(script, **IMAGE, CHARTS=charts, NETWORK_ACCESS="closed")
        assert done.returncode == 0, done.stderr
    assert outside(supply.calls[before:]) == []
    [build] = [call for call in supply.calls[before:] if call[:3] == ["docker", "buildx", "build"] and "--tag" in call]
    assert build[-2].startswith(f"libraries=docker-image://{REGISTRY}/atlas/mirror/training-base@sha256:")


@pytest.mark.exhaustive
def test_a_second_run_copies_and_builds_nothing(supply):
    supply.run("supply.sh", DEPLOYED=HYPERPOD_EKS)
    before = len(supply.calls)
    done = supply.run("supply.sh", DEPLOYED=HYPERPOD_EKS)
    assert done.returncode == 0, done.stderr
    assert "copied 0 of 8 charts and images" in done.stdout
    assert "the platform can be deployed" in done.stdout
    assert outside(supply.calls[before:]) == []
    assert len(supply.pushed) == 1


def test_the_machine_that_supplies_a_closed_network_is_not_in_it(supply):
    done = supply.run("supply.sh", DEPLOYED="nvidia-device-plugin", NETWORK_ACCESS="closed")
    assert done.returncode == 0, done.stderr
    assert len(supply.called("helm", "push")) == 1


def test_every_call_to_aws_is_in_the_platforms_region(supply):
    path = supply.root / "bin/aws"
    path.write_text(path.read_text().replace("case ", '[[ "$AWS_DEFAULT_REGION" == us-west-2 ]] || exit 9\ncase ', 1))
    done = supply.run("supply.sh", DEPLOYED="", AWS_DEFAULT_REGION="eu-north-1")
    assert done.returncode == 0, done.stderr


def test_a_copy_that_fails_is_not_passed_over(supply):
    supply.stand_in("curl", "exit 22\n")
    done = supply.run("supply.sh", DEPLOYED=EKS)
    assert done.returncode == 22
    assert "can be deployed" not in done.stdout
    assert supply.called("docker", "buildx", "build") == []


def test_tools_that_this_machine_lacks_are_all_named_at_once(supply):
    bare = supply.root / "bare"
    bare.mkdir()
    for tool in ("bash", "dirname"):
        (bare / tool).symlink_to(str(shutil.which(tool)))
    (bare / "uname").write_text("#!/bin/sh\necho Darwin arm64\n")
    (bare / "uname").chmod(0o755)
    done = supply.run("supply.sh", DEPLOYED=EKS, PATH=str(bare))
    assert done.returncode == 1
    assert done.stderr == (
        "[delivery] error: this machine lacks Linux on x86_64 (this is Darwin arm64), docker, aws, git, curl, python3\n"
    )


def test_a_docker_without_buildx_and_a_python_without_yaml_are_told_from_none(supply):
    supply.stand_in("docker", '[[ "$1" != buildx ]] || exit 1\n')
    python = supply.root / "bin/python3"
    python.write_text("#!/usr/bin/env bash\nexit 1\n")
    python.chmod(0o755)
    done = supply.run("supply.sh", DEPLOYED=EKS)
    assert done.returncode == 1
    assert done.stderr == ("[delivery] error: this machine lacks docker's buildx, python3's module yaml (PyYAML)\n")


def test_a_checkout_that_is_not_what_was_deployed_supplies_nothing(supply):
    with (supply.root / "container/Dockerfile").open("a") as dockerfile:
        dockerfile.write("FROM scratch AS libraries\n")
    done = supply.run("supply.sh", DEPLOYED=EKS)
    assert done.returncode == 1
    assert f"and the image stack waits for {supply.environment['DEPLOYED_BASE']}: check out the version" in done.stderr
    assert outside(supply.calls) + supply.called("docker", "buildx", "build") == []


def test_a_platform_that_was_not_deployed_is_told(supply):
    done = supply.run("supply.sh", DEPLOYED=EKS, SUPPLY_PARAMETER="/trainway/other/delivery/supply")
    assert done.returncode == 254
    assert "ParameterNotFound" in done.stderr
    assert outside(supply.calls) == []


RUN = "touch $HOME/run"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHARTS", f"eks; {RUN} $({RUN})"),
        ("CHARTS", f"eks'; {RUN}; '"),
        ("MIRROR_PREFIX", f"a[$({RUN})]"),
        ("BASE_TAG", "--output=type=local,dest=/"),
        ("MIRROR_BUCKET_URI", "--endpoint-url=http://127.0.0.1:9"),
        ("BILLS_URI", "s3://bucket/bills\nsecond line"),
        ("MIRROR_REGISTRY", "111122223333.dkr.ecr.us-west-2.amazonaws.com,dest=x"),
        ("PIP_INDEX", "https://index.example/\nextra-index-url = https://other.example/"),
        ("IMAGE_ARGUMENTS", '{"VARIANT": "cuda\\n--output\\ntype=local,dest=/"}'),
        ("IMAGE_ARGUMENTS", '["VARIANT"]'),
        ("RUN_AI_SECRET", "--debug"),
        ("RUN_AI_SECRET", f"run-ai $({RUN})"),
        ("EXPORTERS", True),
        ("EXPORTERS", "true\0"),
        (f"x=1; {RUN}; y", "1"),
        ("PATH", "/tmp/planted"),
        ("BASH_ENV", "/tmp/planted"),
        ("PYTHONPATH", "/tmp/planted"),
        ("LD_PRELOAD", "/tmp/planted.so"),
    ],
)
def test_a_parameter_with_other_names_or_values_than_the_stack_writes_is_refused(supply, name: str, value):
    holds(supply, {name: value})
    done = supply.run("supply.sh")
    assert done.returncode == 78, done.stdout + done.stderr
    assert "/trainway/atlas/delivery/supply is not as the image stack writes it" in done.stderr
    assert ascii(value) in done.stderr or f"{name!a} is no variable" in done.stderr
    assert not (supply.root / "run").exists()
    # Nothing was called with any of it.
    assert [call[:3] for call in supply.calls if call[0] != "uname"] == [
        ["docker", "buildx", "version"],
        ["aws", "ssm", "get-parameter"],
    ]


def test_a_parameter_that_is_no_object_is_refused(supply):
    for text in ("", "[]", "export PATH=/tmp"):
        supply.environment["PARAMETER"] = text
        supply.stand_in("aws", 'printf "%s" "$PARAMETER"\n')
        done = supply.run("supply.sh")
        assert done.returncode == 78, done.stdout + done.stderr
        assert "it is not" in done.stderr


@pytest.mark.parametrize(
    "secret", ["run-ai/atlas", "arn:aws:secretsmanager:us-west-2:111122223333:secret:run-ai-AbCdEf"]
)
def test_a_parameter_as_the_stack_writes_it_is_taken(supply, secret: str):
    holds(supply, {"RUN_AI_SECRET": secret})
    done = supply.run("supply.sh")
    assert done.returncode == 0, done.stderr


def holds(supply, changes: dict[str, object], without: str = "") -> None:
    """Let SSM hold what the stack writes, with some of its variables changed, and without one."""
    parameter = {
        "MIRROR_REGISTRY": REGISTRY,
        "MIRROR_PREFIX": "atlas/mirror",
        "MIRROR_BUCKET_URI": "s3://bucket/mirror",
        "BILLS_URI": "s3://bucket/bills",
        "CHARTS": "",
        "BASE_TAG": supply.environment["DEPLOYED_BASE"],
        "NETWORK_ACCESS": "closed",
        "IMAGE_ARGUMENTS": '{"VARIANT": "cuda", "SOURCE_DATE_EPOCH": "1767225600"}',
    }
    supply.environment["PARAMETER"] = json.dumps(
        {key: value for key, value in (parameter | changes).items() if key != without}
    )
    supply.stand_in("aws", '[[ "$1" != ssm ]] || printf "%s" "$PARAMETER"\n' + ECR)


def added(supply, **tags: str) -> None:
    """Let SSM hold the tags of what the platform adds to the base."""
    path = supply.root / "bin/aws"
    written = "".join(f'"{name}": "{tag}", ' for name, tag in tags.items())
    path.write_text(path.read_text().replace('"NETWORK_ACCESS"', f'{written}"NETWORK_ACCESS"'))


def test_what_a_platform_adds_to_the_base_is_built_after_it(supply):
    (supply.root / "additions").mkdir()
    (supply.root / "additions/apt.txt").write_text("libaio-dev\n")
    tag = image_hash(supply.root, "packages", {"VARIANT": "cuda", "SOURCE_DATE_EPOCH": "1767225600"})
    added(supply, PACKAGES_TAG=tag, DOCKERFILE_TAG="none")
    done = supply.run("supply.sh", DEPLOYED="")
    assert done.returncode == 0, done.stderr
    built = [call[call.index("--tag") + 1].rpartition(":")[2] for call in supply.pushed]
    assert built == [supply.environment["DEPLOYED_BASE"], tag]


def test_a_checkout_without_what_the_platform_adds_builds_nothing(supply):
    added(supply, PACKAGES_TAG="packages-c0ffee", DOCKERFILE_TAG="none")
    done = supply.run("supply.sh", DEPLOYED="")
    assert done.returncode == 1
    assert "makes the image none, and the image stack waits for packages-c0ffee" in done.stderr
    assert "run `trainway image additions FILE` here" in done.stderr
    assert supply.called("docker", "buildx", "build") == []
