"""The cluster stage installs from the mirror, then applies the platform's objects; and what every stage refuses."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"


@pytest.fixture
def cluster(aws, helm_archive):
    shutil.copy(helm_archive, aws.root / "s3")
    manifests = aws.root / "manifests"
    (manifests / "values").mkdir(parents=True)
    (manifests / "objects").mkdir()
    for plugin in ("aws-efa-k8s-device-plugin", "nvidia-device-plugin"):
        (manifests / "values" / f"{plugin}.json").write_text("{}")
    volume = '{"handle": "${TRAINWAY_FSX_ID}", "command": "echo $HOME ${X}"}'
    (manifests / "objects" / "10-volume.json").write_text(volume)
    aws.environment |= {"CLUSTER_NAME": "atlas", "TRAINWAY_FSX_ID": 'fs-1"'}
    # Keeps what is applied, which the stage deletes when it ends.
    aws.stand_in("kubectl", 'cp -R "${!#}" "$S3/applied"\n')
    return aws


def test_charts_come_from_the_mirror_with_their_images_from_there_too(cluster):
    done = cluster.run("cluster.sh", ORCHESTRATOR="eks")
    assert done.returncode == 0, done.stderr
    upgrades = {call[2]: call for call in cluster.called("helm", "upgrade")}
    assert list(upgrades) == ["aws-efa-k8s-device-plugin", "nvidia-device-plugin", "kubeflow-trainer"]
    efa = upgrades["aws-efa-k8s-device-plugin"]
    assert efa[3] == f"oci://{REGISTRY}/atlas/mirror/charts/aws-efa-k8s-device-plugin"
    assert f"image.repository={REGISTRY}/atlas/mirror/aws-efa-k8s-device-plugin" in efa
    values = [efa[at + 1] for at, word in enumerate(efa) if word == "--values"]
    assert [Path(path).suffix for path in values] == [".yaml", ".json"]
    trainer = upgrades["kubeflow-trainer"]
    assert f"jobset.image.registry={REGISTRY}" in trainer
    assert "jobset.image.repository=atlas/mirror/jobset" in trainer
    assert trainer[trainer.index("--timeout") + 1] == "600s"


def test_hyperpods_chart_is_installed_first(cluster):
    cluster.run("cluster.sh", ORCHESTRATOR="hyperpod-eks")
    first = cluster.called("helm", "upgrade")[0]
    assert first[2] == "hyperpod-dependencies"
    assert "global.region=us-west-2" in first


def test_a_device_plugin_is_not_installed_on_its_own_list_of_instance_types(cluster):
    (cluster.root / "manifests/values/aws-efa-k8s-device-plugin.json").unlink()
    done = cluster.run("cluster.sh", ORCHESTRATOR="eks")
    assert done.returncode == 1
    assert "no values/aws-efa-k8s-device-plugin.json" in done.stderr
    assert cluster.called("helm", "upgrade") == []


def test_objects_are_applied_after_the_charts_with_facts_of_the_deployed_stack(cluster):
    done = cluster.run("cluster.sh", ORCHESTRATOR="eks")
    assert done.returncode == 0, done.stderr
    assert cluster.calls[-1][:4] == ["kubectl", "apply", "--server-side", "--force-conflicts"]
    applied = json.loads((cluster.root / "s3/applied/10-volume.json").read_text())
    assert applied == {"handle": 'fs-1"', "command": "echo $HOME ${X}"}


def test_a_cluster_without_nodes_is_not_waited_for(cluster):
    cluster.run("cluster.sh", ORCHESTRATOR="hyperpod-eks", ROLLOUT_TIMEOUT_SECONDS="0")
    assert all("--wait" not in call for call in cluster.called("helm", "upgrade"))


def test_a_closed_network_installs_with_the_helm_that_was_brought_in(cluster):
    done = cluster.run("cluster.sh", ORCHESTRATOR="eks", NETWORK_ACCESS="closed")
    assert done.returncode == 0, done.stderr
    assert len(cluster.called("helm", "upgrade")) == 3
    assert cluster.called("curl") == []


def test_a_closed_network_without_a_helm_stops_with_the_remedy_and_fetches_none(cluster, helm_archive):
    (cluster.root / "s3" / helm_archive.name).unlink()
    done = cluster.run("cluster.sh", ORCHESTRATOR="eks", NETWORK_ACCESS="closed")
    assert done.returncode == 1
    assert done.stderr == (
        "[delivery] error: a closed network cannot fetch what is missing: "
        f"helm (s3://bucket/mirror/tools/{helm_archive.name}). Run the command that the image stack prints as its "
        "output Supply on a machine with the internet, then deploy again\n"
    )
    assert [call[:3] for call in cluster.calls] == [["aws", "s3", "cp"]]


def test_an_unset_placeholder_stops_before_the_cluster_is_touched(cluster):
    (cluster.root / "manifests/objects/20.json").write_text('{"a": "${TRAINWAY_ABSENT}"}')
    done = cluster.run("cluster.sh", ORCHESTRATOR="eks")
    assert done.returncode == 2
    assert "TRAINWAY_ABSENT is not set" in done.stderr
    assert cluster.called("helm", "upgrade") == []


def test_a_chart_that_does_not_become_ready_names_itself(cluster, helm_archive):
    aws = cluster
    helm = aws.root / "helm/linux-amd64/helm"
    helm.write_text(helm.read_text() + '[[ "$1" != upgrade ]] || exit 1\n')
    subprocess.run(["tar", "-czf", helm_archive, "-C", helm.parents[1], "linux-amd64"], check=True)
    digest = subprocess.run(["sha256sum", helm_archive], check=True, capture_output=True, text=True).stdout.split()[0]
    path = aws.root / "delivery/mirror.yaml"
    document = yaml.safe_load(path.read_text())
    document["tools"]["helm"]["sha256"] = digest
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    shutil.copy(helm_archive, aws.root / "s3")
    done = aws.run("cluster.sh", ORCHESTRATOR="eks")
    assert done.returncode == 1
    assert "chart aws-efa-k8s-device-plugin v0.5.30 is not ready" in done.stderr
    assert aws.called("kubectl") == []


@pytest.mark.parametrize("script", ["scripts.sh", "image.sh", "mirror.sh", "cluster.sh", "base_image.sh", "supply.sh"])
def test_missing_variables_are_all_named_at_once(workshop, script: str):
    done = workshop.run(script)
    assert done.returncode == 1
    assert "missing environment variables: " in done.stderr
    assert len(done.stderr.split("variables: ")[1].split()) >= 2


@pytest.mark.parametrize("script", ["image.sh", "mirror.sh"])
def test_an_unknown_access_to_the_network_is_not_taken_for_the_default(aws, script: str):
    image = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee", "ORCHESTRATOR": "eks"}
    done = aws.run(script, **image, NETWORK_ACCESS="Closed")
    assert done.returncode == 1
    assert done.stderr == "[delivery] error: NETWORK_ACCESS is 'Closed', expected private or closed\n"
    assert aws.calls == []
