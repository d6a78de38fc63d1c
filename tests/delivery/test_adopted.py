"""In an adopted cluster, the cluster stage changes no object of another owner, and can remove its own."""

import json
import shutil
from typing import Any

import pytest

from tests.delivery.conftest import DOCUMENT, REGISTRY, installed

PREFIX = f"{REGISTRY}/atlas/mirror"
CHARTS = "nvidia-device-plugin kueue kubeflow-trainer"

# Answers from files in $S3/there, and keeps nothing.
KUBECTL = r"""
there=$S3/there
case "$*" in
  "get deployments,daemonsets,statefulsets "*) cat "$there/workloads.json" ;;
  "get --filename "*) cat "$there/${3##*/}" 2>/dev/null || true ;;
  "get configmap "*) cat "$there/marker" 2>/dev/null || true ;;
  "get namespaces "*) cat "$there/namespaces" 2>/dev/null || true ;;
  "get pods --namespace "*) cat "$there/pods" 2>/dev/null || true ;;
  "create configmap "*) printf '%s' "${7#platform=}" >"$there/marker"; echo '{}' ;;
  "apply "*"--filename -") cat >/dev/null ;;
  "delete configmap "*) rm -f "$there/marker" ;;
esac
"""


def workload(kind: str, namespace: str, name: str, image: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": image}]}
    return {
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"template": {"spec": pod}},
    }


@pytest.fixture
def cluster(aws, helm_archive):
    shutil.copy(helm_archive, aws.root / "s3")
    manifests = aws.root / "manifests"
    (manifests / "values").mkdir(parents=True)
    (manifests / "objects").mkdir()
    for chart in (each["chart"] for each in DOCUMENT["charts"] if each.get("platform_values") == "required"):
        (manifests / "values" / f"{chart}.json").write_text("{}")
    (manifests / "objects" / "10-namespace.json").write_text('{"kind": "Namespace", "metadata": {"name": "training"}}')
    (manifests / "objects" / "20-volume.json").write_text('{"kind": "PersistentVolume", "metadata": {"name": "fsx"}}')
    aws.environment |= {"CLUSTER_NAME": "shared", "ADOPTED_CLUSTER": "yes", "CHARTS": CHARTS}
    aws.stand_in("kubectl", KUBECTL)
    (aws.root / "s3" / "there").mkdir()
    put_workloads(aws)
    return aws


def put(cluster, name: str, text: str) -> None:
    (cluster.root / "s3" / "there" / name).write_text(text)


def put_workloads(cluster, *items: dict[str, Any]) -> None:
    put(cluster, "workloads.json", json.dumps({"items": items}))


def changes(cluster) -> list[list[str]]:
    return [
        call
        for call in cluster.calls
        if call[:2] in (["helm", "upgrade"], ["helm", "uninstall"], ["kubectl", "apply"], ["kubectl", "delete"])
    ]


def refused(cluster, *words: str, **variables: str) -> None:
    done = cluster.run("cluster.sh", **variables)
    assert done.returncode == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert changes(cluster) == [], "nothing is changed before the check"


def test_what_others_run_beside_is_no_obstacle_and_the_platform_leaves_its_mark(cluster):
    put_workloads(
        cluster,
        workload("Deployment", "web", "shop", "docker.io/library/nginx:1"),
        workload("DaemonSet", "kube-system", "nvidia", f"{PREFIX}/nvidia/k8s-device-plugin:v0.20.0"),
    )
    done = cluster.run("cluster.sh")
    assert done.returncode == 0, done.stderr
    assert len(cluster.called("helm", "upgrade")) == 3
    assert (cluster.root / "s3" / "there" / "marker").read_text() == "atlas"
    assert cluster.run("cluster.sh").returncode == 0, "the mark is the platform's own"


@pytest.mark.parametrize(
    ("image", "key"),
    [
        ("registry.k8s.io/kueue/kueue:v0.14.0", "queues: none"),
        ("mirror.example.com:5000/team/nvidia/k8s-device-plugin@sha256:0", "device_plugins: [nvidia]"),
        # As the first one.
        pytest.param(
            "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.0.0",
            "trainer: false",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_somebody_else_runs_is_not_installed_a_second_time(cluster, image, key):
    put_workloads(cluster, workload("Deployment", "theirs", "one", image))
    refused(cluster, "Deployment theirs/one", key)


def test_a_release_of_somebody_else_is_not_upgraded(cluster):
    """`helm upgrade --install` would take the place of a release of the same name."""
    helm = cluster.root / "s3" / "theirs"
    helm.write_text("kueue\n")
    cluster.environment["THEIR_RELEASES"] = str(helm)
    refused(cluster, "a Helm release kueue", "queues: none")


def test_an_object_of_somebody_else_is_not_taken_over(cluster):
    managers = [{"manager": "kubectl-create"}]
    metadata = {"name": "training", "managedFields": managers}
    put(cluster, "10-namespace.json", json.dumps({"kind": "Namespace", "metadata": metadata}))
    refused(cluster, "Namespace training", "rename or delete it")
    managers.append({"manager": "trainway"})
    put(cluster, "10-namespace.json", json.dumps({"kind": "Namespace", "metadata": metadata}))
    assert cluster.run("cluster.sh").returncode == 0, "what an earlier deploy applied is the platform's own"


@pytest.mark.parametrize(("name", "text"), [("marker", "other"), ("namespaces", "namespace/other-research")])
def test_a_cluster_serves_one_platform(cluster, name, text):
    put(cluster, name, text)
    refused(cluster, "use another cluster")


def test_a_platform_withdraws_with_all_that_it_installed(cluster):
    assert cluster.run("cluster.sh").returncode == 0
    cluster.root.joinpath("calls").unlink()
    done = cluster.run("cluster.sh", WITHDRAW="yes", CHARTS="")
    assert done.returncode == 0, done.stderr
    assert {call[2] for call in cluster.called("helm", "uninstall")} == {
        "nvidia-device-plugin", "kueue", "kubeflow-trainer",
    }  # fmt: skip
    deleted = [call[3].rpartition("/")[2] for call in cluster.called("kubectl", "delete", "--filename")]
    assert deleted == ["20-volume.json", "10-namespace.json"]
    assert not (cluster.root / "s3" / "there" / "marker").exists()
    assert cluster.called("helm", "upgrade") == cluster.called("kubectl", "apply") == []


def test_a_platform_does_not_withdraw_while_pods_run(cluster):
    installed(cluster, *CHARTS.split())
    put(cluster, "marker", "atlas")
    put(cluster, "namespaces", "namespace/training")
    put(cluster, "pods", "pod/llama-0")
    refused(cluster, "pods run in namespace/training: pod/llama-0", WITHDRAW="yes", CHARTS="")
