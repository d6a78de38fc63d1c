"""The stages install Run:ai's cluster with a secret that no argument, no line, and no value of Helm shows."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.delivery.conftest import ECR, Workshop
from tests.delivery.run_ai_server import (
    CLIENT_SECRET,
    CLUSTER,
    HIDDEN,
    RESEARCH,
    SECRET,
    Server,
    control_plane,
    platform_with,
)
from tests.manifests.platforms import CATALOGUE
from trainway.manifests import cluster_manifests
from trainway.manifests.run_ai_values import CLIENT_SECRET as NAME_OF_SECRET


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with control_plane(tmp_path / "certificates") as running:
        yield running


VALUE = json.dumps(SECRET)
AWS = f"""
if [[ "$1 $2" == "secretsmanager get-secret-value" ]]; then
  echo '{VALUE}'
fi
{ECR}"""
KUBECTL = r"""
if [[ "$1" == apply ]]; then
  mkdir -p "$S3/applied"
  if [[ -d "${!#}" ]]; then cp -R "${!#}/." "$S3/applied"; else cp "${!#}" "$S3/applied"; fi
fi
[[ "$1 $2" != "get namespaces" ]] || printf '%s' "${NAMESPACES:-}"
[[ "$1 $2" != "get pods" ]] || printf '%s' "${PODS:-}"
"""


@pytest.fixture
def stage(aws: Workshop, helm_archive: Path, server: Server) -> Workshop:
    shutil.copy(helm_archive, aws.root / "s3")
    for name, manifest in cluster_manifests(platform_with(server.address, RESEARCH), CATALOGUE).items():
        if name.startswith(("values/runai", "run_ai/")):
            file = aws.root / "manifests" / f"{name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(manifest))
    (aws.root / "manifests/objects").mkdir()
    (aws.root / "manifests/objects/10-namespace.json").write_text("{}")
    aws.environment |= {"CLUSTER_NAME": "atlas", "RUN_AI_SECRET": "run-ai", "SSL_CERT_FILE": str(server.authority)}
    aws.stand_in("aws", AWS)
    aws.stand_in("kubectl", KUBECTL)
    return aws


def says_no_secret(stage: Workshop, done: subprocess.CompletedProcess[str]) -> None:
    for said in (done.stdout, done.stderr, json.dumps(stage.calls)):
        assert not any(each in said for each in HIDDEN)


def test_the_stage_installs_the_chart_with_what_the_control_plane_says(stage: Workshop, server: Server) -> None:
    done = stage.run("cluster.sh", CHARTS="runai-cluster", NAMESPACES="research product")
    assert done.returncode == 0, done.stderr
    says_no_secret(stage, done)
    read = {tuple(call[3:7]) for call in stage.called("aws", "secretsmanager")}
    assert read == {("--secret-id", "run-ai", "--region", "us-west-2")}
    [upgrade] = stage.called("helm", "upgrade")
    assert upgrade[2] == "runai-cluster" and upgrade[upgrade.index("--namespace") + 1] == "runai"
    of_platform, of_cluster = [json.loads(each.read_text()) for each in sorted((stage.root / "s3/values").iterdir())]
    assert of_platform["controlPlane"]["existingSecret"] == NAME_OF_SECRET
    assert of_platform["controlPlane"]["url"] == server.address.removeprefix("https://")
    assert of_platform["clusterConfig"]["project-controller"]["createNamespaces"] is False
    assert of_cluster == {"cluster": {"uid": CLUSTER, "url": "https://atlas.example.com"}}
    assert "created the project research" in done.stdout
    # The project comes once its namespace is there.
    order = [
        call[:2] for call in stage.calls if call[0] in ("helm", "kubectl") and call[1] in ("upgrade", "apply", "get")
    ]
    assert order[-4:] == [["kubectl", "apply"], ["helm", "upgrade"], ["kubectl", "apply"], ["kubectl", "get"]]


def test_the_clusters_own_secret_and_the_key_of_the_registry_are_secrets_of_the_cluster(stage: Workshop) -> None:
    done = stage.run("cluster.sh", CHARTS="runai-cluster")
    assert done.returncode == 0, done.stderr
    namespace, client, registry = json.loads((stage.root / "s3/applied/objects.json").read_text())["items"]
    assert namespace["metadata"]["name"] == "runai"
    assert client["metadata"] == {"name": NAME_OF_SECRET, "namespace": "runai"}
    assert client["stringData"] == {"clientSecret": CLIENT_SECRET}
    assert registry["type"] == "kubernetes.io/dockerconfigjson"
    login = json.loads(registry["stringData"][".dockerconfigjson"])["auths"]["nvcr.io"]
    assert base64.b64decode(login["auth"]).decode() == f"$oauthtoken:{SECRET['ngc_api_key']}"
    assert list(stage.root.rglob("run_ai/objects.json")) == []


def test_a_cluster_that_the_control_plane_does_not_know_is_not_installed(stage: Workshop, server: Server) -> None:
    server.domain = None
    done = stage.run("cluster.sh", CHARTS="runai-cluster")
    assert done.returncode == 78 and f"the cluster {CLUSTER} has no URL in Run:ai" in done.stderr
    server.instead[f"GET /api/v1/clusters/{CLUSTER}"] = (404, b'{"message": "cluster not found"}', {})
    done = stage.run("cluster.sh", CHARTS="runai-cluster")
    assert done.returncode == 78 and "404: cluster not found" in done.stderr
    assert stage.called("helm", "upgrade") == [] and server.writes == []


def test_a_secret_of_another_region_is_read_there_and_one_that_cannot_be_read_is_named(stage: Workshop) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:run-ai-AbCdEf"
    done = stage.run("cluster.sh", CHARTS="runai-cluster", RUN_AI_SECRET=arn)
    assert done.returncode == 0, done.stderr
    assert {call[6] for call in stage.called("aws", "secretsmanager")} == {"us-east-1"}
    stage.stand_in("aws", '[[ "$1" != secretsmanager ]] || exit 254\n' + ECR)
    done = stage.run("cluster.sh", CHARTS="runai-cluster", RUN_AI_SECRET=arn)
    assert done.returncode == 1
    assert f"kubernetes.run_ai.secret names {arn}, and the role needs secretsmanager:GetSecretValue" in done.stderr


def test_without_the_section_run_ai_is_uninstalled_once_no_pod_asks_for_it(stage: Workshop, server: Server) -> None:
    assert stage.run("cluster.sh", CHARTS="runai-cluster").returncode == 0
    server.requests.clear()
    done = stage.run("cluster.sh", CHARTS="kubeflow-trainer", RUN_AI_SECRET="", PODS="pod/a")
    assert done.returncode == 1
    assert "jobs still ask for Run:ai's scheduler; end those of `kubectl get pods -A" in done.stderr
    assert stage.called("helm", "uninstall") == []
    done = stage.run("cluster.sh", CHARTS="kubeflow-trainer", RUN_AI_SECRET="")
    assert done.returncode == 0, done.stderr
    # Before another scheduler comes.
    order = [call[1] for call in stage.calls if call[0] == "helm" and call[1] in ("uninstall", "upgrade")]
    assert order == ["upgrade", "uninstall", "upgrade"]
    assert stage.called("kubectl", "delete", "secrets", NAME_OF_SECRET, "runai-reg-creds")
    assert server.requests == []


def test_the_mirror_fetches_the_chart_with_the_key_of_ngc(stage: Workshop) -> None:
    done = stage.run("mirror.sh", CHARTS="runai-cluster")
    assert done.returncode == 0, done.stderr
    says_no_secret(stage, done)
    [added] = stage.called("helm", "repo", "add")
    assert added[3:] == [
        "run-ai",
        "https://helm.ngc.nvidia.com/nvidia/runai",
        "--username",
        "$oauthtoken",
        "--password-stdin",
    ]
    [pulled] = stage.called("helm", "pull")
    assert pulled[2:5] == ["run-ai/runai-cluster", "--version", "2.25.10"]
    assert (stage.root / "ecr/atlas/mirror/charts/runai-cluster/2.25.10").exists()
    # Published again under the same version, it would be refused (delivery/recorded.sh).
    assert (stage.root / "s3/chart-runai-cluster-2.25.10.sha256").exists()
