"""The scripts stage delivers exactly lifecycle_scripts/ and this platform's parameters."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

SLURM = {
    "LIFECYCLE_S3_URI": "s3://sagemaker-atlas/lifecycle",
    "TRAINWAY_FSX_DNS_NAME": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    "TRAINWAY_FSX_MOUNT_NAME": "abcdefgh",
}
FSX = {
    "dns_name": "${TRAINWAY_FSX_DNS_NAME}",
    "mount_name": "${TRAINWAY_FSX_MOUNT_NAME}",
    "mount_path": "/fsx",
    "mounted_by": "service",
}
PARAMETERS: dict[str, Any] = {
    "orchestrator": "hyperpod-slurm",
    "controller_group": "controller",
    "fsx": FSX,
    "lustre_efa_interfaces": {"train": 8},
}


def bundled(aws: Any, **changes: Any) -> None:
    """Puts the parameters into the bundle, as the synthesis does."""
    (aws.root / "nodes").mkdir(exist_ok=True)
    (aws.root / "nodes/parameters.json").write_text(json.dumps(PARAMETERS | changes))


def test_scripts_are_synchronized_exactly_with_the_platforms_parameters(aws):
    bundled(aws)
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 0, done.stderr
    [call] = aws.called("aws", "s3", "sync")
    assert call[4:] == ["s3://sagemaker-atlas/lifecycle/", "--delete", "--no-progress"]
    synced = aws.root / "s3" / "synced"
    assert {path.relative_to(synced).as_posix() for path in synced.rglob("*") if path.is_file()} == {
        path.relative_to(ROOT / "lifecycle_scripts").as_posix()
        for path in (ROOT / "lifecycle_scripts").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {"parameters.json"}
    mounted = FSX | {"dns_name": SLURM["TRAINWAY_FSX_DNS_NAME"], "mount_name": SLURM["TRAINWAY_FSX_MOUNT_NAME"]}
    assert json.loads((synced / "parameters.json").read_text()) == PARAMETERS | {"fsx": mounted}


def test_teams_and_users_lie_where_no_version_of_the_scripts_does(aws):
    bundled(aws)
    (aws.root / "manifests").mkdir()
    for name in ("accounts", "users"):
        (aws.root / f"manifests/slurm-{name}.json").write_text('{"role": "${TRAINWAY_TEAM_ROLE_RED}"}')
    there = {"TRAINWAY_DOCUMENTS_S3_URI": "s3://sagemaker-atlas/documents"}
    assert aws.run("scripts.sh", **SLURM, **there).returncode == 2, "the role of a team is not known"
    assert aws.called("aws", "s3", "cp") == []
    done = aws.run("scripts.sh", **SLURM, **there, TRAINWAY_TEAM_ROLE_RED="arn:aws:iam::111122223333:role/red")
    assert done.returncode == 0, done.stderr
    role = json.loads((aws.root / "s3/slurm-accounts.json").read_text())
    assert role == {"role": "arn:aws:iam::111122223333:role/red"}
    assert {(Path(call[3]).name, call[4]) for call in aws.called("aws", "s3", "cp")} == {
        (f"slurm-{name}.json", f"s3://sagemaker-atlas/documents/slurm-{name}.json")
        for name in ("accounts", "users", "scraping")
    }
    # A controller that collected metrics under an earlier platform file ends that.
    assert json.loads((aws.root / "s3/slurm-scraping.json").read_text()) == {}


def test_what_is_scraped_lies_beside_them_with_the_address_of_the_workspace(aws):
    bundled(aws)
    (aws.root / "manifests").mkdir()
    for name, text in (("accounts", "{}"), ("users", "{}"), ("scraping", '{"url": "${TRAINWAY_METRICS_ENDPOINT}/x"}')):
        (aws.root / f"manifests/slurm-{name}.json").write_text(text)
    there = {"TRAINWAY_DOCUMENTS_S3_URI": "s3://sagemaker-atlas/documents", "TRAINWAY_METRICS_ENDPOINT": "https://aps"}
    done = aws.run("scripts.sh", **SLURM, **there)
    assert done.returncode == 0, done.stderr
    assert json.loads((aws.root / "s3/slurm-scraping.json").read_text()) == {"url": "https://aps/x"}


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ({"containers": "required"}, "containers"),
        ({"containers": "wanted", "exporters": True}, "containers exporters"),
        ({"exporters": True}, "exporters"),
        ({"exporters": True, "slurm_scraping": {"s3_uri": "s3://b/x.json", "region": "r"}}, "exporters collector"),
    ],
)
def test_nodes_are_delivered_the_packages_of_what_they_run(aws, asked: dict[str, Any], parts: str):
    bundled(aws, **asked)
    (aws.root / "delivery/node_packages.sh").write_text('mkdir -p "$1" && echo "${@:2}" >"$1/parts"\n')
    assert aws.run("scripts.sh", **SLURM).returncode == 0
    assert (aws.root / "s3/synced/yours/packages/parts").read_text() == f"{parts}\n"


def test_certificates_that_no_node_would_trust_stop_before_anything_is_delivered(aws):
    certificates = aws.root / "lifecycle_scripts" / "yours" / "certificates"
    (certificates / "proxy.pem").write_text("not one")
    (certificates / "proxy.cer").write_text("")
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert "no node would trust these certificates" in done.stderr
    assert "proxy.pem: no certificate in PEM" in done.stderr
    assert "proxy.cer: only .crt and .pem files are certificates" in done.stderr
    assert aws.calls == []


def test_no_provisioning_parameters_file_is_delivered_since_hyperpod_refuses_it(aws):
    bundled(aws)
    aws.run("scripts.sh", **SLURM)
    assert not list((aws.root / "s3" / "synced").rglob("provisioning_parameters.json"))


def test_a_bucket_without_a_prefix_is_refused_because_the_rest_would_be_deleted(aws):
    done = aws.run("scripts.sh", **{**SLURM, "LIFECYCLE_S3_URI": "s3://sagemaker-atlas/"})
    assert done.returncode == 1
    assert "must name a prefix" in done.stderr
    assert aws.calls == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"orchestrator": "slurm"}, 'orchestrator is "slurm", expected hyperpod-slurm, hyperpod-eks'),
        ({"fsx": "string"}, 'fsx is "string", expected an object or null'),
        ({"fsx": FSX | {"mount_name": ""}}, "fsx.mount_name is empty"),
        ({"homes": {"dns_name": "fs-2.fsx"}}, "homes.mount_path is missing; homes.mounted_by is missing"),
        ({"containers": "yes"}, 'containers is "yes", expected required, wanted, none'),
        ({"huge_pages": 1}, "huge_pages is a key that these scripts do not know"),
    ],
)
def test_what_no_node_would_understand_stops_before_anything_is_delivered(aws, change: dict[str, Any], message: str):
    bundled(aws, **change)
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 1
    assert message in done.stderr and "error: no node would understand its parameters" in done.stderr
    assert "Traceback" not in done.stderr
    assert aws.calls == []


@pytest.mark.parametrize(
    ("dns_name", "name"),
    [
        ("${TRAINWAY_ABSENT}", "TRAINWAY_ABSENT"),
        ("${TRAINWAY_fsx_dns_name}", "TRAINWAY_fsx_dns_name"),
        ("${TRAINWAY_FSX_DNS_NAME:-}", "TRAINWAY_FSX_DNS_NAME:-"),
        ("${TRAINWAY_FSX_DNS_NAM", "TRAINWAY_FSX_DNS_NAM"),
    ],
)
def test_a_placeholder_that_is_not_replaced_reaches_no_node(aws, dns_name: str, name: str):
    bundled(aws, fsx=FSX | {"dns_name": dns_name})
    done = aws.run("scripts.sh", **SLURM)
    assert done.returncode == 2
    assert f"parameters.json: {name} is not set in the environment" in done.stderr
    assert aws.calls == []
