"""An operator of jobs leaves the cluster when no job needs it, and what it leaves behind can be deleted."""

import shutil

import pytest

from tests.delivery.conftest import installed, sha256

# An API server with the objects of the files in `kubernetes`, a line each, as the stage's jsonpath prints them.
KUBECTL = r"""
if [[ "$1" == get ]]; then
  there=${CALLS%/*}/kubernetes/$2
  [[ ! -e "$there" ]] || cat "$there"
fi
"""
# The kinds of jobs whose operator each chart installs.
KINDS = {
    "kuberay-operator": "rayjobs.ray.io",
    "training-operators": "pytorchjobs.kubeflow.org",
    "kubeflow-trainer": "jobsets.jobset.x-k8s.io",
}


@pytest.fixture
def cluster(aws, helm_archive):
    shutil.copy(helm_archive, aws.root / "s3")
    published = aws.root / "published/mpi-operator.yaml"
    shutil.copy(published, aws.root / "s3" / f"mpi-operator-{sha256(published)}.yaml")
    for folder in ("manifests/values", "manifests/objects", "kubernetes"):
        (aws.root / folder).mkdir(parents=True)
    (aws.root / "manifests/objects/10.json").write_text("{}")
    aws.environment |= {"CLUSTER_NAME": "atlas"}
    aws.stand_in("kubectl", KUBECTL)
    return aws


def has(cluster, kind: str, *lines: str) -> None:
    (cluster.root / "kubernetes" / kind).write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("chart", KINDS)
def test_an_operator_stays_while_a_job_needs_it_and_nothing_is_changed(cluster, chart: str):
    installed(cluster, chart)
    has(cluster, KINDS[chart], "research/ended 2026-11-23T10:00:00Z", "research/first ", "product/second ")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 1
    assert f"jobs still need {chart}: research/first,product/second. Wait until they have ended" in done.stderr
    assert {call[1] for call in cluster.calls if call[0] in ("helm", "kubectl")} == {"registry", "list", "get"}
    has(cluster, KINDS[chart], "research/ended 2026-11-23T10:00:00Z")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    assert [call[2] for call in cluster.called("helm", "uninstall")] == [chart]


def test_kuberay_stays_until_the_clusters_of_its_jobs_are_gone(cluster):
    installed(cluster, "kuberay-operator")
    has(cluster, "rayjobs.ray.io", "research/ended 2026-11-23T10:00:00Z")
    has(cluster, "rayclusters.ray.io", "research/ended-x7k2p ")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 1
    assert "jobs still need kuberay-operator: research/ended-x7k2p." in done.stderr


def test_a_ray_job_that_has_ended_can_be_deleted_without_kuberay(cluster):
    installed(cluster, "kuberay-operator")
    # Of every object the stage asks for a field that none has, and so the last line has a name alone.
    cluster.stand_in(
        "kubectl", KUBECTL + '[[ "$*" != "get rayjobs.ray.io "*".metadata.none"* ]] || echo "research/ended "\n'
    )
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    ends = [call for call in cluster.calls if call[1] in ("patch", "uninstall")]
    assert ends[0][:5] == ["kubectl", "patch", "rayjobs.ray.io", "ended", "--namespace"]
    assert ends[0][5] == "research" and '"finalizers": null' in ends[0][-1]
    assert ends[1][:3] == ["helm", "uninstall", "kuberay-operator"]


def test_the_mpi_operator_leaves_without_its_definition_and_says_so(cluster):
    done = cluster.run("cluster.sh", CHARTS="mpi-operator")
    assert done.returncode == 0, done.stderr
    has(cluster, "deployments", "trainway kube-controller-manager")
    has(cluster, "mpijobs.kubeflow.org", "research/first ")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 1
    assert "jobs still need mpi-operator: research/first." in done.stderr
    has(cluster, "mpijobs.kubeflow.org", "research/first 2026-11-23T10:00:00Z")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    assert (
        "mpi-operator is not chosen any more; its definitions, roles, and namespace stay" in done.stdout + done.stderr
    )
    [deleted] = [call for call in cluster.called("kubectl", "delete") if call[2] == "deployment"]
    assert deleted[3:] == ["mpi-operator", "--namespace", "mpi-operator"]


def test_an_mpi_operator_that_somebody_else_installed_stays(cluster):
    has(cluster, "deployments", "kubectl-client-side-apply kube-controller-manager")
    has(cluster, "mpijobs.kubeflow.org", "research/first ")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    assert [call for call in cluster.called("kubectl", "delete") if call[2] == "deployment"] == []
