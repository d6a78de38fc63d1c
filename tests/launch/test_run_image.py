"""A job names its image by a name of the platform or by a digest, which is checked in ECR before the launch."""

from __future__ import annotations

import dataclasses
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tests.launch.foreign import write_foreign_job
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.requests import CATALOGUE, on_slurm
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.run_image import EFA_LABEL, check_image, image_by_digest
from trainway.launch.local import render_local
from trainway.launch.program.allocation import Allocation, allocate
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import render_request
from trainway.launch.slurm import SlurmOptions, render_script
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.problems import SpecError

DIGEST = f"sha256:{'ab' * 32}"
OWN = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/jobs/llm@{DIGEST}"


@pytest.mark.parametrize(
    ("image", "why", "remedy"),
    [
        ("jobs/llm:latest", "a tag can mean another one tomorrow", "sha256"),
        ("jobs/llm@sha256:12", "no image by its digest", "64 digits"),
        ("./docker", "a launch builds none", "images: {own: {dockerfile: FOLDER}}"),
    ],
)
def test_what_is_no_image_is_refused_with_a_way_that_works(image: str, why: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_program(write_foreign_job(tmp_path, image=image))
    [problem] = caught.value.problems
    assert why in problem.reason and remedy in problem.remedy


def test_an_image_without_registry_is_in_that_of_the_platform(hand_off: HandOff) -> None:
    assert image_by_digest(f"jobs/llm@{DIGEST}", hand_off) == OWN
    for whole in (OWN, f"docker.io/library/python@{DIGEST}", f"ghcr.io/a/b@{DIGEST}"):
        assert image_by_digest(whole, hand_off) == whole


def two_nodes(hand_off: HandOff, tmp_path: Path, **changes: Any) -> Allocation:
    return allocate(load_program(write_foreign_job(tmp_path, nodes=2, **changes)), hand_off, CATALOGUE)


@contextmanager
def ecr(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> Iterator[None]:
    """ECR with these manifests, None for an image that it lacks, and last the address of the configuration."""
    client = boto3.client("ecr", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        for answer in answers:
            if isinstance(answer, str):
                stub.add_response("get_download_url_for_layer", {"downloadUrl": answer})
            else:
                images = [] if answer is None else [{"imageManifest": json.dumps(answer)}]
                stub.add_response("batch_get_image", {"images": images})
        monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
        yield
        stub.assert_no_pending_responses()


@contextmanager
def served(document: Any) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/config"
        server.shutdown()


INDEX = {
    "manifests": [
        {"digest": f"sha256:{'01' * 32}", "platform": {"architecture": "arm64"}},
        {"digest": f"sha256:{'cd' * 32}", "platform": {"architecture": "amd64"}},
    ]
}
MANIFEST = {"config": {"digest": f"sha256:{'ef' * 32}"}}


@pytest.mark.parametrize(
    ("labels", "said"), [({EFA_LABEL: "1.49.0"}, ""), ({}, "its ranks use TCP and not EFA"), (None, "use TCP")]
)
def test_an_image_without_efa_is_said_before_the_launch(
    labels: Any,
    said: str,
    hand_off: HandOff,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served({"config": {"Labels": labels}}) as url, ecr(monkeypatch, INDEX, MANIFEST, url):
        has_plugin = check_image(OWN, two_nodes(hand_off, tmp_path), CATALOGUE)
    warning = capsys.readouterr().err
    assert said in warning and bool(warning) == bool(said) and has_plugin == (not said)


NO_EFA = {"architecture": "amd64", "config": {"Env": ["NCCL_NET=Socket", "NCCL_NET_PLUGIN=spcx", "NCCL_ALGO=Ring"]}}


def test_an_image_that_certainly_uses_no_efa_is_refused_and_doubts_are_said(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, job = two_nodes(hand_off, tmp_path), {"NCCL_NET": "Libfabric"}
    with served(NO_EFA) as url:
        with (
            ecr(monkeypatch, MANIFEST, url),
            pytest.raises(UsageError, match="NCCL_NET=Socket: NCCL uses the") as refused,
        ):
            check_image(OWN, nodes, CATALOGUE)
        assert "--allow-tcp" in str(refused.value) and f"trainway image doctor {OWN}" in str(refused.value)
        for environment, allow_tcp in ((job, False), ({}, True)):
            with ecr(monkeypatch, MANIFEST, url):
                assert not check_image(OWN, nodes, CATALOGUE, environment, allow_tcp=allow_tcp)
            said = capsys.readouterr().err
            assert "NCCL_NET_PLUGIN=spcx: NCCL opens another plugin than AWS's" in said
            assert ("NCCL_NET=Socket" in said) is allow_tcp and "NCCL_ALGO" not in said


def test_an_image_that_is_absent_or_for_another_processor_is_refused(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = two_nodes(hand_off, tmp_path)
    with ecr(monkeypatch, None), pytest.raises(UsageError, match="does not have this digest"):
        check_image(OWN, nodes, CATALOGUE)
    arm = {"manifests": INDEX["manifests"][:1]}
    with ecr(monkeypatch, arm), pytest.raises(UsageError, match="no manifest for linux/amd64"):
        check_image(OWN, nodes, CATALOGUE)
    with (
        served({"architecture": "arm64", "config": {}}) as url,
        ecr(monkeypatch, MANIFEST, url),
        pytest.raises(UsageError, match="it is for linux/arm64, and the nodes are linux/amd64"),
    ):
        check_image(OWN, nodes, CATALOGUE)
    check_image(f"ghcr.io/a/b@{DIGEST}", nodes, CATALOGUE)
    assert "it is in no ECR registry" in capsys.readouterr().err


def test_each_target_runs_in_the_image_or_says_why_not(hand_off: HandOff, tmp_path: Path) -> None:
    public = f"docker.io/mosaicml/llm-foundry@{DIGEST}"
    program = load_program(write_foreign_job(tmp_path, image=public))
    slurm = on_slurm(hand_off)
    program = dataclasses.replace(program, team=hand_off.teams[0])
    asked = Request(program, "first", slurm, public, allocate(program, slurm, CATALOGUE), image_name=public)
    script = render_script(asked, CATALOGUE)
    assert f"docker://docker.io#mosaicml/llm-foundry:{DIGEST}" in script and "machine docker.io" not in script
    with pytest.raises(UsageError, match="its job file names the image"):
        render_script(asked, CATALOGUE, SlurmOptions(environment=PurePosixPath("/fsx/venv")))
    with pytest.raises(UsageError, match="is not in ECR"):
        render_request(dataclasses.replace(asked, hand_off=on_sagemaker(hand_off)), CATALOGUE)
    with pytest.raises(UsageError, match="this machine starts no containers"):
        render_local(program, tmp_path / "run", processes=1, hand_off=None)
    named = load_program(write_foreign_job(tmp_path, image="develop"))
    assert render_local(named, tmp_path / "run", processes=1, hand_off=None).command


def test_a_person_without_the_right_to_look_at_the_image_launches_with_a_warning(
    hand_off: HandOff, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = boto3.client("ecr", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        stub.add_client_error("batch_get_image", "AccessDeniedException", "you may not")
        monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
        check_image(OWN, two_nodes(hand_off, tmp_path), CATALOGUE)
    assert "its labels cannot be read: you may not" in capsys.readouterr().err
