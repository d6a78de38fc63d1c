"""`trainway image doctor` reads images: an OCI layout, archives, and a real registry on loopback."""

# ruff: noqa: E501 # the table of defects has a row for each
from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.stub import Stubber

from tests.image_doctor.layouts import ENVIRONMENT, FABRIC, PLUGIN, WHOLE, Layer, write_layout
from tests.image_doctor.test_dockerfiles import OF_FILES
from tests.registry import programs, registry
from trainway.image_doctor.diagnosis import Diagnosis, diagnose, subject_named
from trainway.image_doctor.registry import RegistryBlobs
from trainway.spec.errors import UsageError

VERSIONS = {
    "EFA installer": "1.49.0",
    "NCCL": "2.29.7",
    "PyTorch": "2.13.0",
    "aws-ofi-nccl": "1.20.0",
    "libfabric": "2.4.0amzn5.0",
}
# A layer on the whole image, or variables in the place of its own, and the file or variable that a finding names.
DEFECTS: dict[str, tuple[Layer, Mapping[str, str], str]] = {
    "no-libfabric": ({f"{FABRIC}/.wh..wh..opq": ""}, ENVIRONMENT, "layout"),
    "another-libfabric-is-found": ({"opt/ucx/libfabric.so.1": ""}, {**ENVIRONMENT, "LD_LIBRARY_PATH": f"/opt/ucx:/{PLUGIN}"}, "/opt/ucx/libfabric.so.1 of layer 3"),
    "no-plugin": ({"opt/amazon/.wh.ofi-nccl": ""}, ENVIRONMENT, "layout"),
    "plugin-is-not-found": ({}, {**ENVIRONMENT, "NCCL_NET_PLUGIN": "aws-ofi"}, "the configuration"),
    "another-plugin-is-found": ({"opt/other/libnccl-net-ofi.so": ""}, {**ENVIRONMENT, "LD_LIBRARY_PATH": f"/opt/other:/{PLUGIN}:/{FABRIC}"}, "/opt/other/libnccl-net-ofi.so of layer 3"),
    "cuda-runtime-is-not-found": ({"usr/local/lib/.wh.libcudart.so": ""}, ENVIRONMENT, "layout"),
    "nccl-is-too-old": ({"usr/lib/libnccl.so.2.16.2": "", "usr/lib/python3/dist-packages/.wh.nvidia_nccl_cu13-2.29.7.dist-info": ""}, ENVIRONMENT, "layout"),
    "path-leads-nowhere": ({"etc/ld.so.conf.d/aws-ofi-nccl.conf": "/opt/amazon/aws-ofi-nccl/lib\n"}, ENVIRONMENT, "/etc/ld.so.conf.d/aws-ofi-nccl.conf of layer 3"),
}  # fmt: skip


def diagnosed(name: str | Path, *, with_layers: bool = True) -> Diagnosis:
    return diagnose(subject_named(str(name), with_layers=with_layers))


def codes(found: Diagnosis) -> list[str]:
    return [each.code for each in found.findings]


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_a_whole_image_has_versions_and_no_finding(tmp_path: Path, compression: str) -> None:
    if compression == "zstd" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed; scripts/install_nodes installs it")
    found = diagnosed(write_layout(tmp_path / "layout", compression=compression))
    assert (codes(found), found.unread, dict(found.versions)) == ([], (), VERSIONS)


def test_every_rule_about_files_is_planted() -> None:
    assert {*DEFECTS} == OF_FILES


@pytest.mark.parametrize("code", DEFECTS)
def test_a_defect_in_the_files_is_found_where_it_is(tmp_path: Path, code: str) -> None:
    layer, environment, where = DEFECTS[code]
    found = diagnosed(write_layout(tmp_path / "layout", (*WHOLE, layer), environment))
    assert codes(found) == [code]
    [one] = found.findings
    assert one.where == (str(tmp_path / "layout") if where == "layout" else where)


def test_a_base_of_ngcs_shape_is_found_wanting(tmp_path: Path) -> None:
    """As https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/5033 has it: libfabric stays, and the plugin is gone."""
    ngc: Layer = {
        "opt/hpcx/nccl_spectrum-x_plugin/lib/libnccl-net-spcx.so": "",
        "opt/hpcx/ompi/lib/libmpi.so.40": "",
        "etc/ld.so.conf.d/aws-ofi-nccl.conf": "/opt/amazon/ofi-nccl/lib\n",
        "opt/amazon/.wh.ofi-nccl": "",
    }
    environment = {"LD_LIBRARY_PATH": "/opt/hpcx/nccl_spectrum-x_plugin/lib", "NCCL_NET_PLUGIN": "spcx"}
    found = diagnosed(write_layout(tmp_path / "layout", (*WHOLE, ngc), environment))
    assert {*codes(found)} == {
        "nccl-plugin-is-not-ours",
        "hpcx-plugin-is-first",
        "no-plugin",
        "path-leads-nowhere",
    }
    assert found.versions["HPC-X"] == "in /opt/hpcx"


def test_the_history_has_the_steps_of_the_build(tmp_path: Path) -> None:
    history = [
        "/bin/sh -c #(nop)  ENV NCCL_NET=Socket",
        "RUN |1 V=1.20.0 /bin/sh -c ./efa_installer.sh -y aws-efa-installer-${V}.tar.gz # buildkit",
        "/bin/sh -c git clone https://github.com/aws/aws-ofi-nccl",
    ]
    environment = {**ENVIRONMENT, "NCCL_NET": "Socket"}
    layout = write_layout(tmp_path / "layout", environment=environment, history=history)
    found = diagnosed(layout, with_layers=False)
    assert {(each.code, each.where) for each in found.findings} == {
        ("nccl-net-is-not-efa", "step 1 of the history"),
        ("installer-verifies-the-host", "step 2 of the history"),
        ("installer-sets-limits", "step 2 of the history"),
        ("installer-is-older-than-nccl", "step 2 of the history"),
        ("plugin-has-no-version", "step 3 of the history"),
    }
    assert [each.code for each in found.findings if each.is_certain] == ["nccl-net-is-not-efa"]


def test_a_layer_that_is_damaged_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "layout")
    manifest = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    layers = json.loads((layout / "blobs" / manifest.replace(":", "/")).read_text())["layers"]
    (layout / "blobs" / layers[0]["digest"].replace(":", "/")).write_bytes(b"\x1f\x8bno gzip")
    found = diagnosed(layout)
    assert len(found.unread) == 1 and found.unread[0].startswith("layer 1 was not read: it is damaged: ")
    assert found.versions["libfabric"] == VERSIONS["libfabric"]
    assert codes(found) == [], "the layer can have what the others lack"


def test_archives_of_skopeo_and_of_an_older_docker_are_read(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "layout")
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(layout, ".")
    words = ["--insecure-policy", "copy", "--quiet", f"oci:{layout}", f"docker-archive:{tmp_path / 'docker.tar'}"]
    subprocess.run([programs() / "skopeo", *words], check=True)
    with tarfile.open(tmp_path / "docker.tar") as archive:
        assert "manifest.json" in archive.getnames() and "index.json" not in archive.getnames()
    for name in ("image.tar", "docker.tar"):
        assert dict(diagnosed(tmp_path / name).versions) == VERSIONS


def test_an_image_is_read_from_a_registry(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "layout", environment={**ENVIRONMENT, "FI_PROVIDER": "tcp"})
    with registry(tmp_path) as address:
        options = ["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]
        subprocess.run(
            [programs() / "skopeo", *options, f"oci:{layout}", f"docker://{address}/team/train:1"], check=True
        )
        found = diagnosed(f"{address}/team/train:1")
        assert (codes(found), dict(found.versions)) == (["provider-is-not-efa"], VERSIONS)
        with pytest.raises(UsageError, match="404"):
            diagnosed(f"{address}/team/train:2")
        with pytest.raises(UsageError, match="it has no image for linux/riscv64"):
            subject_named(str(layout), architecture="riscv64")


class _WithTokens(http.server.BaseHTTPRequestHandler):
    """A registry that gives a token to everybody, and keeps blobs in a storage that takes no login."""

    layout: Path
    refused: list[str]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        login = self.headers.get("Authorization")
        if parts.path == "/token":
            scope = parse_qs(parts.query)["scope"]
            self._answer(
                200, json.dumps({"token": "t" if scope == ["repository:team/train:pull"] else "wrong"}).encode()
            )
        elif parts.path.startswith("/storage/"):
            self.refused += [parts.path] if login else []
            self._answer(200, (self.layout / "blobs/sha256" / parts.path.rpartition(":")[2]).read_bytes())
        elif login != "Bearer t":
            host = self.headers["Host"]
            challenge = f'Bearer realm="http://{host}/token",service="here"'
            self._answer(401, b"", {"WWW-Authenticate": challenge})
        elif "/manifests/" in parts.path:
            name = parts.path.rpartition(":")[2]
            file = self.layout / "blobs/sha256" / name
            self._answer(200, (file if file.is_file() else self.layout / "index.json").read_bytes())
        else:
            self._answer(307, b"", {"Location": f"/storage/{parts.path.rpartition('/')[2]}"})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


def test_a_token_is_asked_for_and_not_sent_to_the_storage(tmp_path: Path) -> None:
    _WithTokens.layout, _WithTokens.refused = write_layout(tmp_path / "layout"), []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _WithTokens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = diagnosed(f"127.0.0.1:{server.server_port}/team/train:1")
        server.shutdown()
    assert dict(found.versions) == VERSIONS and _WithTokens.refused == []


def test_ecr_is_read_with_the_login_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("ecr", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
    blobs = RegistryBlobs("111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs:1")
    with Stubber(client) as stub:
        stub.add_response("get_authorization_token", {"authorizationData": [{"authorizationToken": "QVdTOnQ="}]})
        assert blobs._log_in('Basic realm="here"') == "Basic QVdTOnQ="
        stub.add_client_error("get_authorization_token", "AccessDeniedException", "you may not")
        with pytest.raises(UsageError, match="you may not"):
            blobs._log_in("")


@pytest.mark.parametrize("name", ["Not an image", "ghcr.io/UPPER/case", "a:b:c"])
def test_what_is_no_name_of_an_image_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of an image"):
        subject_named(name)


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"manifests": []}', b"no json", b'{"manifests": [{}]}'])
def test_what_is_no_layout_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.json").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read as an image"):
        subject_named(str(tmp_path))
