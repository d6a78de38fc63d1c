"""`trainway image doctor` finds a defect in a Dockerfile, with its line, and nothing in a whole one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import run_trainway
from trainway.image_doctor.diagnosis import diagnose, subject_named
from trainway.image_doctor.dockerfile import dockerfile_subject
from trainway.image_doctor.rules import ImageFinding, load_rules
from trainway.spec.errors import UsageError

PLANTED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("planted.yaml").read_text(encoding="utf-8"))
WHOLE, DEFECTS = PLANTED["whole"], PLANTED["defects"]
# Rules of efa-nccl-doctor 1.0. https://github.com/awslabs/awsome-distributed-ai/pull/1235 (read 2026-11-28)
OF_AWS = {*(f"EFA00{number}" for number in range(1, 5)), *(f"NCCL00{number}" for number in range(1, 5))}
OF_AWS |= {"ENV001", "ENV002", "PIN001"}
# What only the files of an image show: test_images.py plants them.
OF_FILES = {
    "another-libfabric-is-found",
    "another-plugin-is-found",
    "cuda-runtime-is-not-found",
    "nccl-is-too-old",
    "no-libfabric",
    "no-plugin",
    "path-leads-nowhere",
    "plugin-is-not-found",
}


def found_in(text: str) -> list[ImageFinding]:
    return list(diagnose(dockerfile_subject("Dockerfile", text)).findings)


def on_ngc(text: str, release: str | None) -> str:
    before = "docker.io/nvidia/cuda:${CUDA}-devel-ubuntu24.04"
    return text.replace(before, f"nvcr.io/nvidia/pytorch:{release}-py3") if release else text


def test_a_whole_dockerfile_has_no_finding() -> None:
    assert found_in(WHOLE) == []
    assert found_in(on_ngc(WHOLE, "26.02")) == []


def test_every_rule_is_planted_and_every_rule_of_aws_is_one() -> None:
    assert {*DEFECTS, *OF_FILES} == {*load_rules()}
    assert {rule.aws for rule in load_rules().values() if rule.aws} == OF_AWS


@pytest.mark.parametrize("code", DEFECTS)
def test_a_defect_is_found_with_its_line(code: str) -> None:
    defect = DEFECTS[code]
    assert WHOLE.count(defect["replace"]) == 1 or defect["replace"] in (
        "EFA_INSTALLER_VERSION=1.49.0",
        "LD_LIBRARY_PATH=",
    )
    found = found_in(on_ngc(WHOLE.replace(defect["replace"], defect["by"], 1), defect.get("ngc")))
    [one] = [each for each in found if each.code == code]
    assert one.where == f"Dockerfile:{defect['line']}"
    assert one.severity is load_rules()[code].severity and one.why and one.fix


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (
            "FROM a:1\nRUN ./efa_installer.sh -y -k -n -l aws-efa-installer-1.49.0.tar.gz\n"
            "ENV LD_LIBRARY_PATH=/opt/amazon/efa/lib64",
            [],
        ),
        (
            "FROM a:1\nRUN curl https://github.com/aws/aws-ofi-nccl/archive/refs/tags/v1.13.2.tar.gz",
            ["plugin-tag-does-not-exist"],
        ),
        ("FROM a:1\nRUN curl https://github.com/aws/aws-ofi-nccl/archive/refs/tags/v1.13.2-aws.tar.gz", []),
        ("FROM a@sha256:0 AS x\nENV NCCL_NET=IB\nFROM x AS y\nENV NCCL_NET=Libfabric", []),
        ("FROM a:1 AS x\nENV NCCL_NET=IB\nFROM b:1\nRUN true", []),
        ("FROM a:1 AS x\nENV NCCL_NET=IB\nFROM X", ["nccl-net-is-not-efa"]),
        ("FROM a:1\nARG NET\nENV NCCL_NET=${NET:-Socket}", ["nccl-net-is-not-efa"]),
        ("FROM a:1\nENV OPAL_PREFIX=/opt/hpcx/ompi\nRUN rm -rf /usr/local/mpi", ["openmpi-looks-elsewhere"]),
        (
            "FROM a:1\nENV OPAL_PREFIX=/opt/hpcx/ompi PATH=/opt/amazon/openmpi/bin:$PATH",
            ["openmpi-looks-elsewhere"],
        ),
        ("FROM a:latest\nFROM scratch\nFROM $UNKNOWN", ["base-has-no-version"]),
    ],
)
def test_what_docker_does_is_read_so(text: str, codes: list[str]) -> None:
    assert [each.code for each in found_in(text)] == codes


def test_the_command_prints_findings_and_ends_with_1_for_an_error(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(WHOLE.replace("NCCL_NET_PLUGIN=ofi", "NCCL_NET=Socket"), encoding="utf-8")
    for name, shown in ((str(file), str(file)), (".", "Dockerfile")):
        done = run_trainway("image", "doctor", name, directory=tmp_path)
        assert done.returncode == 1
        assert f"{shown}:13: error: NCCL_NET=Socket [nccl-net-is-not-efa]" in done.stdout
        assert "fix: remove the variable" in done.stdout and done.stdout.endswith("1 error, 0 warnings\n")
    told = json.loads(run_trainway("image", "doctor", "Dockerfile", "--json", directory=tmp_path).stdout)
    assert [(each["code"], each["severity"]) for each in told["findings"]] == [("nccl-net-is-not-efa", "error")]
    file.write_text(WHOLE.replace(" --skip-limit-conf", ""), encoding="utf-8")
    assert run_trainway("image", "doctor", "Dockerfile", directory=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"\xff", "codec"), (b"RUN true\n", "it has no FROM"), (b"", "no FROM")],
)
def test_what_is_no_dockerfile_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "Dockerfile"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=why):
        subject_named(str(file))
