"""The cluster stage installs from the mirror, then applies the platform's objects; and what every stage refuses."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.delivery.conftest import (
    DOCUMENT,
    EKS,
    HYPERPOD_EKS,
    MANIFEST,
    REFERENCE,
    REGISTRY,
    ROOT,
    installed,
    listed,
    sha256,
)
from tests.representatives import with_representatives
from trainway.manifests.namespace import team_namespace

RIGHTS = ("rolebindings", "clusterrolebindings", "roles", "clusterroles")
QUEUES = ("localqueues", "clusterqueues", "resourceflavors", "admissionchecks", "provisioningrequestconfigs")
GUARDS = {
    "clustertrainingruntimes.trainer.kubeflow.org",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "daemonsets.apps",
}

# Keeps what is applied, which the stage deletes when it ends.
KUBECTL = r"""
if [[ "$1" == apply ]]; then
  mkdir -p "$S3/applied"
  if [[ -d "${!#}" ]]; then cp -R "${!#}/." "$S3/applied"; else cp "${!#}" "$S3/applied"; fi
fi
"""


@pytest.fixture
def cluster(aws, helm_archive):
    shutil.copy(helm_archive, aws.root / "s3")
    manifests = aws.root / "manifests"
    (manifests / "values").mkdir(parents=True)
    (manifests / "objects").mkdir()
    for chart in (each["chart"] for each in DOCUMENT["charts"] if each.get("platform_values") == "required"):
        (manifests / "values" / f"{chart}.json").write_text("{}")
    volume = '{"handle": "${TRAINWAY_FSX_ID}", "command": "echo $HOME ${X}"}'
    (manifests / "objects" / "10-volume.json").write_text(volume)
    aws.environment |= {"CLUSTER_NAME": "atlas", "TRAINWAY_FSX_ID": 'fs-1"'}
    aws.stand_in("kubectl", KUBECTL)
    return aws


def test_charts_come_from_the_mirror_with_their_images_from_there_too(cluster):
    done = cluster.run("cluster.sh", CHARTS=EKS)
    assert done.returncode == 0, done.stderr
    upgrades = {call[2]: call for call in cluster.called("helm", "upgrade")}
    assert list(upgrades) == ["aws-efa-k8s-device-plugin", "nvidia-device-plugin", "kubeflow-trainer"]
    efa = upgrades["aws-efa-k8s-device-plugin"]
    assert efa[3] == f"oci://{REGISTRY}/atlas/mirror/charts/aws-efa-k8s-device-plugin"
    assert f"image.repository={REGISTRY}/atlas/mirror/aws-efa-k8s-device-plugin" in efa
    values = [efa[at + 1] for at, word in enumerate(efa) if word == "--values"]
    assert [Path(path).suffix for path in values] == [".json"]
    plugin = upgrades["nvidia-device-plugin"]
    assert [Path(plugin[at + 1]).suffix for at, word in enumerate(plugin) if word == "--values"] == [".yaml", ".json"]
    trainer = upgrades["kubeflow-trainer"]
    assert f"jobset.image.repository={REGISTRY}/atlas/mirror/jobset" in trainer
    assert trainer[trainer.index("--timeout") + 1] == "600s"


def test_hyperpods_chart_is_installed_first(cluster):
    cluster.run("cluster.sh", CHARTS=HYPERPOD_EKS)
    first = cluster.called("helm", "upgrade")[0]
    assert first[2] == "hyperpod-dependencies"
    assert "global.region=us-west-2" in first


def test_charts_are_installed_in_the_order_they_are_named_in_and_no_others(cluster):
    done = cluster.run("cluster.sh", CHARTS="neuron-helm-chart kueue kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    assert [call[2] for call in cluster.called("helm", "upgrade")] == [
        "neuron-device-plugin",
        "kueue",
        "kubeflow-trainer",
    ]


def test_only_the_device_plugin_of_the_neuron_chart_runs():
    values = yaml.safe_load((ROOT / "delivery/values/neuron-helm-chart.yaml").read_text())
    assert [name for name, part in values.items() if part["enabled"]] == ["devicePlugin"]


def test_no_toleration_is_written_by_hand():
    for file in (ROOT / "delivery/values").glob("*.yaml"):
        assert "tolerations" not in file.read_text(), f"{file.name}: tolerations come from trainway/manifests/taints.py"


def test_no_job_of_a_team_gets_past_its_queue():
    values = yaml.safe_load((ROOT / "delivery/values/kueue.yaml").read_text())
    configuration = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    assert configuration["manageJobsWithoutQueueName"] is True
    namespaces = [each for each in team_namespace("research") if each["kind"] == "Namespace"]
    labels = configuration["managedJobsNamespaceSelector"]["matchLabels"].items()
    assert labels and all(labels <= each["metadata"]["labels"].items() for each in namespaces)
    launched = {"batch/job", "trainer.kubeflow.org/trainjob", "kubeflow.org/mpijob", "kubeflow.org/pytorchjob", "pod"}
    assert launched <= set(configuration["integrations"]["frameworks"])


@pytest.fixture
def manifest(cluster) -> Path:
    """The MPI operator's manifest where the mirror stage leaves it."""
    published = cluster.root / "published/mpi-operator.yaml"
    path = cluster.root / "s3" / f"mpi-operator-{sha256(published)}.yaml"
    shutil.copy(published, path)
    return path


@pytest.mark.usefixtures("manifest")
def test_a_manifest_is_applied_with_its_image_from_the_mirror_and_waited_for(cluster):
    done = cluster.run("cluster.sh", CHARTS="kubeflow-trainer mpi-operator")
    assert done.returncode == 0, done.stderr
    applied = (cluster.root / "s3/applied/mpi-operator.yaml").read_text()
    copy = f"{REGISTRY}/atlas/mirror/mpi-operator:{listed('images', 'mpi-operator')['tag']}"
    assert applied == MANIFEST.replace(REFERENCE, copy)
    [rollout] = cluster.called("kubectl", "rollout")
    assert rollout[2:6] == ["status", "deployment/mpi-operator", "--namespace", "mpi-operator"]
    assert [call[1] for call in cluster.calls if call[0] in ("helm", "kubectl")][1:] == [
        "list",
        "upgrade",
        "apply",
        "rollout",
        "apply",
        # Of volumes and, without a file system, of all of them; and of what the platform has no more.
        "delete",
        "delete",
    ]


def test_a_manifest_of_definitions_alone_is_applied_and_there_is_nothing_to_wait_for(cluster):
    published = cluster.root / "published/autoscaling.x-k8s.io_provisioningrequests.yaml"
    shutil.copy(published, cluster.root / "s3" / f"provisioning-requests-{sha256(published)}.yaml")
    done = cluster.run("cluster.sh", CHARTS="provisioning-requests")
    assert done.returncode == 0, done.stderr
    assert (cluster.root / "s3/applied/provisioning-requests.yaml").read_text() == MANIFEST
    assert cluster.called("kubectl", "rollout") == []


@pytest.mark.usefixtures("manifest")
def test_a_manifest_in_a_cluster_without_nodes_is_not_waited_for(cluster):
    done = cluster.run("cluster.sh", CHARTS="mpi-operator", ROLLOUT_TIMEOUT_SECONDS="0")
    assert done.returncode == 0, done.stderr
    assert cluster.called("kubectl", "rollout") == []


def test_a_manifest_that_is_not_the_pinned_one_is_not_applied(cluster, manifest):
    manifest.write_text(MANIFEST + "---\nkind: ClusterRoleBinding\n")
    done = cluster.run("cluster.sh", CHARTS="mpi-operator")
    assert done.returncode == 1
    assert f"the checksum of s3://bucket/mirror/manifests/{manifest.name} is not the pinned one" in done.stderr
    assert cluster.called("kubectl") == []


def test_a_manifest_that_the_mirror_stage_did_not_keep_is_named_and_not_fetched(cluster):
    done = cluster.run("cluster.sh", CHARTS="mpi-operator")
    assert done.returncode == 1
    assert "the mirror stage has left no manifest s3://bucket/mirror/manifests/mpi-operator-" in done.stderr
    assert cluster.called("kubectl") + cluster.called("curl") == []


@pytest.mark.usefixtures("manifest")
def test_a_manifest_whose_deployment_does_not_become_ready_names_itself(cluster):
    cluster.stand_in("kubectl", KUBECTL + '[[ "$1" != rollout ]] || exit 1\n')
    done = cluster.run("cluster.sh", CHARTS="mpi-operator")
    assert done.returncode == 1
    assert f"chart mpi-operator {listed('charts', 'mpi-operator')['version']} is not ready" in done.stderr


@pytest.mark.parametrize(
    "plugin",
    with_representatives(
        ["aws-efa-k8s-device-plugin", "nvidia-device-plugin", "neuron-helm-chart"], ["nvidia-device-plugin"]
    ),
)
def test_a_device_plugin_is_not_installed_on_its_own_list_of_instance_types(cluster, plugin: str):
    (cluster.root / f"manifests/values/{plugin}.json").unlink()
    done = cluster.run("cluster.sh", CHARTS=f"{plugin} kubeflow-trainer")
    assert done.returncode == 1
    assert f"no values/{plugin}.json" in done.stderr
    assert cluster.called("helm", "upgrade") == []


def test_objects_are_applied_after_the_charts_with_facts_of_the_deployed_stack(cluster):
    done = cluster.run("cluster.sh", CHARTS=EKS)
    assert done.returncode == 0, done.stderr
    calls = [call for call in cluster.calls if call[0] in ("helm", "kubectl") and "persistentvolumes" not in call[2]]
    charts_then_objects = [call[:2] for call in calls]
    assert charts_then_objects[-3:] == [["helm", "upgrade"], ["kubectl", "apply"], ["kubectl", "delete"]]
    [applied] = cluster.called("kubectl", "apply")
    assert {"--server-side", "--force-conflicts"} <= set(applied)
    volume = json.loads((cluster.root / "s3/applied/10-volume.json").read_text())
    assert (volume["handle"], volume["command"]) == ('fs-1"', "echo $HOME ${X}")


def deleted(cluster, **environment):
    """The kinds of which what is stale is deleted, and the revision that is not."""
    done = cluster.run("cluster.sh", **environment)
    assert done.returncode == 0, done.stderr
    call = cluster.called("kubectl", "delete")[-1]
    assert "--all-namespaces" in call
    exists, _, differs = call[call.index("--selector") + 1].partition(",")
    assert exists == "trainway.dev/revision"
    return set(call[2].split(",")), differs.removeprefix("trainway.dev/revision!=")


def test_what_an_earlier_deploy_applied_and_this_one_did_not_is_deleted(cluster):
    _, revision = deleted(cluster, CHARTS="")
    labels = json.loads((cluster.root / "s3/applied/10-volume.json").read_text())["metadata"]["labels"]
    assert labels == {"trainway.dev/revision": revision}
    assert deleted(cluster, CHARTS="")[1] == revision
    (cluster.root / "manifests/objects/20-more.json").write_text('{"metadata": {"labels": {"a": "b"}}}')
    assert deleted(cluster, CHARTS="")[1] != revision
    assert json.loads((cluster.root / "s3/applied/20-more.json").read_text())["metadata"]["labels"]["a"] == "b"


def test_a_chart_that_is_not_chosen_any_more_is_taken_out_where_a_deploy_installed_it(cluster):
    cluster.run("cluster.sh", CHARTS="neuron-helm-chart kubeflow-trainer")
    assert cluster.called("helm", "uninstall") == []
    done = cluster.run("cluster.sh", CHARTS="kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    assert [call[2] for call in cluster.called("helm", "uninstall")] == ["neuron-device-plugin"]
    cluster.run("cluster.sh", CHARTS="kubeflow-trainer")
    assert len(cluster.called("helm", "uninstall")) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("aws-efa-k8s-device-plugin", "aws-dranet"),
        pytest.param("nvidia-device-plugin", "gpu-operator", marks=pytest.mark.exhaustive),
        pytest.param("dra-driver-nvidia-gpu", "nvidia-device-plugin", marks=pytest.mark.exhaustive),
    ],
)
def test_what_gave_devices_away_leaves_before_another_comes(cluster, before: str, after: str):
    installed(cluster, before, "kubeflow-trainer")
    done = cluster.run("cluster.sh", CHARTS=f"{after} kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    order = [call[1:3] for call in cluster.calls if call[1] in ("upgrade", "uninstall")]
    assert order[:2] == [["uninstall", before], ["upgrade", after]]


def test_trainer_takes_its_runtimes_along(cluster):
    installed(cluster, "kubeflow-trainer")
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    *_, deleted_first, uninstalled, stale = [c for c in cluster.calls if c[1] in ("delete", "uninstall")]
    assert deleted_first[2] == "clustertrainingruntimes.trainer.kubeflow.org"
    assert uninstalled[:3] == ["helm", "uninstall", "kubeflow-trainer"]
    assert "clustertrainingruntimes.trainer.kubeflow.org" not in stale[2].split(",")


def test_volumes_of_a_file_system_that_is_gone_are_deleted_and_no_others(cluster):
    objects = cluster.root / "manifests" / "objects"
    for generation in (1, 3):
        volume = {"metadata": {"labels": {"trainway.dev/lustre-generation": str(generation)}}}
        (objects / f"20-{generation}.json").write_text(json.dumps(volume))
        (objects / f"21-{generation}.json").write_text(json.dumps(volume))
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    (deleted,) = [call for call in cluster.called("kubectl", "delete") if "persistentvolumes" in call[2]]
    assert deleted[2] == "persistentvolumeclaims,persistentvolumes"
    # What an earlier deploy of the platform applied, for a file system that none of the objects is of.
    label = "trainway.dev/lustre-generation"
    assert deleted[deleted.index("--selector") + 1] == f"trainway.dev/revision,{label},{label} notin (1,3)"
    assert "--wait=false" in deleted, "pods that still run keep their claim"


def test_all_volumes_are_deleted_if_the_platform_has_no_file_system_any_more(cluster):
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    (deleted,) = [call for call in cluster.called("kubectl", "delete") if "persistentvolumes" in call[2]]
    assert deleted[deleted.index("--selector") + 1] == "trainway.dev/revision,trainway.dev/lustre-generation"


def test_a_cluster_without_any_chart_gets_its_objects(cluster):
    done = cluster.run("cluster.sh", CHARTS="")
    assert done.returncode == 0, done.stderr
    assert cluster.called("helm", "upgrade") == [] and cluster.called("kubectl", "apply")


def test_kueue_leaves_after_its_queues_which_only_it_can_let_go(cluster):
    installed(cluster, "kueue", "kubeflow-trainer")
    done = cluster.run("cluster.sh", CHARTS="kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    ends = [call for call in cluster.calls if call[1] in ("delete", "uninstall") and "persistentvolumes" not in call[2]]
    ends = ends[-3:]
    assert [call[:2] for call in ends] == [["kubectl", "delete"], ["helm", "uninstall"], ["kubectl", "delete"]]
    assert {"localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io"} <= set(ends[0][2].split(","))
    assert "--wait=false" not in ends[0]


def test_kueue_stays_while_its_queues_have_jobs(cluster):
    installed(cluster, "kueue", "kubeflow-trainer")
    cluster.stand_in("kubectl", KUBECTL + '[[ "$1 $2" != "delete localqueues"* ]] || exit 1\n')
    done = cluster.run("cluster.sh", CHARTS="kubeflow-trainer")
    assert done.returncode == 1
    assert "queues still have jobs" in done.stderr and "deploy again" in done.stderr
    assert cluster.called("helm", "uninstall") == []


def test_kais_webhook_answers_before_there_are_queues(cluster):
    done = cluster.run("cluster.sh", CHARTS="kai-scheduler kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    order = [call[1:3] for call in cluster.calls if call[0] in ("helm", "kubectl")]
    waited = order.index(["wait", "--for=condition=Available"])
    assert order[waited - 1] == ["upgrade", "kai-scheduler"]
    assert waited < next(at for at, words in enumerate(order) if words[0] == "apply")
    cluster.run("cluster.sh", CHARTS="kai-scheduler", ROLLOUT_TIMEOUT_SECONDS="0")
    assert len(cluster.called("kubectl", "wait")) == 1


@pytest.mark.parametrize(("before", "after"), [("kueue", "kai-scheduler"), ("kai-scheduler", "kueue")])
def test_what_holds_jobs_back_goes_before_another_comes(cluster, before: str, after: str):
    installed(cluster, before, "kubeflow-trainer")
    done = cluster.run("cluster.sh", CHARTS=f"{after} kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    order = [call[1:3] for call in cluster.calls if call[0] in ("helm", "kubectl")]
    gone, come = order.index(["uninstall", before]), order.index(["upgrade", after])
    assert gone < come
    assert order[gone - 1][0] == "delete"
    queues = "localqueues.kueue.x-k8s.io" if before == "kueue" else "queues.scheduling.run.ai"
    assert order[gone - 1][1].startswith(queues)


def test_kai_stays_while_pods_ask_for_it_and_nothing_else_is_touched(cluster):
    installed(cluster, "kai-scheduler", "kubeflow-trainer")
    cluster.stand_in("kubectl", KUBECTL + '[[ "$1 $2" != "get pods" ]] || echo pod/worker-0\n')
    done = cluster.run("cluster.sh", CHARTS="kueue kubeflow-trainer")
    assert done.returncode == 1
    assert "jobs still ask for the KAI scheduler" in done.stderr and "deploy again" in done.stderr
    assert {tuple(call[:2]) for call in cluster.calls if call[0] in ("helm", "kubectl")} == {
        ("helm", "registry"),
        ("helm", "list"),
        ("kubectl", "get"),
    }


def test_kais_topmost_queue_goes_when_its_children_have_gone(cluster):
    installed(cluster, "kai-scheduler", "kubeflow-trainer")
    refused = """
if [[ "$1 $2" == "delete queues.scheduling.run.ai,"* && ! -e "$S3/refused" ]]; then
  touch "$S3/refused"
  exit 1
fi
"""
    cluster.stand_in("kubectl", KUBECTL + refused)
    done = cluster.run("cluster.sh", CHARTS="kubeflow-trainer")
    assert done.returncode == 0, done.stderr
    tries = [call for call in cluster.called("kubectl", "delete") if call[2].startswith("queues.scheduling.run.ai,")]
    assert len(tries) == 2
    assert [call[2] for call in cluster.called("helm", "uninstall")] == ["kai-scheduler"]


def test_kais_queues_that_do_not_go_stop_the_deploy(cluster):
    installed(cluster, "kai-scheduler", "kubeflow-trainer")
    cluster.stand_in("kubectl", KUBECTL + '[[ "$1 $2" != "delete queues"* ]] || exit 1\n')
    done = cluster.run("cluster.sh", CHARTS="kubeflow-trainer", RETIRE_TIMEOUT_SECONDS="0")
    assert done.returncode == 1
    assert "the KAI scheduler's queues cannot be deleted" in done.stderr
    assert cluster.called("helm", "uninstall") == []


def test_only_rights_queues_runtimes_and_guards_are_deleted_and_nothing_that_holds_data_or_limits(cluster):
    always = {f"{kind}.rbac.authorization.k8s.io" for kind in RIGHTS} | GUARDS
    assert deleted(cluster, CHARTS=EKS)[0] == always
    assert deleted(cluster, CHARTS=f"kueue {EKS}")[0] == always | {f"{kind}.kueue.x-k8s.io" for kind in QUEUES}
    assert deleted(cluster, CHARTS=f"kai-scheduler {EKS}")[0] == always | {"queues.scheduling.run.ai"}


def test_a_cluster_without_nodes_is_not_waited_for(cluster):
    cluster.run("cluster.sh", CHARTS=HYPERPOD_EKS, ROLLOUT_TIMEOUT_SECONDS="0")
    assert all("--wait" not in call for call in cluster.called("helm", "upgrade"))


def test_a_closed_network_installs_with_the_helm_that_was_brought_in(cluster):
    done = cluster.run("cluster.sh", CHARTS=EKS, NETWORK_ACCESS="closed")
    assert done.returncode == 0, done.stderr
    assert len(cluster.called("helm", "upgrade")) == 3
    assert cluster.called("curl") == []


def test_a_closed_network_without_a_helm_stops_with_the_remedy_and_fetches_none(cluster, helm_archive):
    (cluster.root / "s3" / helm_archive.name).unlink()
    done = cluster.run("cluster.sh", CHARTS=EKS, NETWORK_ACCESS="closed")
    assert done.returncode == 78
    assert done.stderr == (
        "[delivery] error: a closed network cannot fetch what is missing: "
        f"helm (s3://bucket/mirror/tools/{helm_archive.name}). Run the command that the image stack prints as its "
        "output Supply on a machine with the internet, then deploy again\n"
    )
    assert [call[:3] for call in cluster.calls] == [["aws", "s3", "cp"]]


def test_an_unset_placeholder_stops_before_the_cluster_is_touched(cluster):
    (cluster.root / "manifests/objects/20.json").write_text('{"a": "${TRAINWAY_ABSENT}"}')
    done = cluster.run("cluster.sh", CHARTS=EKS)
    assert done.returncode == 2
    assert "TRAINWAY_ABSENT is not set" in done.stderr
    assert cluster.called("helm", "upgrade") == []


def test_a_chart_that_does_not_become_ready_names_itself(cluster):
    done = cluster.run("cluster.sh", CHARTS=EKS, HELM_FAILS_TO="upgrade")
    assert done.returncode == 1
    version = listed("charts", "aws-efa-k8s-device-plugin")["version"]
    assert f"chart aws-efa-k8s-device-plugin {version} is not ready" in done.stderr
    assert cluster.called("kubectl", "apply") + cluster.called("kubectl", "delete") == []


def test_the_missing_variable_of_the_scripts_stage_is_named(workshop):
    done = workshop.run("scripts.sh")
    assert done.returncode == 78
    assert done.stderr.endswith("missing environment variables: LIFECYCLE_S3_URI\n")


@pytest.mark.parametrize("script", ["image.sh", "mirror.sh", "cluster.sh", "base.sh", "supply.sh"])
def test_missing_variables_are_all_named_at_once(workshop, script: str):
    done = workshop.run(script)
    assert done.returncode == 78
    assert "missing environment variables: " in done.stderr
    assert len(done.stderr.split("variables: ")[1].split()) >= 2


@pytest.mark.parametrize("script", ["image.sh", "mirror.sh"])
def test_an_unknown_access_to_the_network_is_not_taken_for_the_default(aws, script: str):
    image = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee", "CHARTS": EKS}
    done = aws.run(script, **image, NETWORK_ACCESS="Closed")
    assert done.returncode == 78
    assert done.stderr == "[delivery] error: NETWORK_ACCESS is 'Closed', expected private or closed\n"
    assert aws.calls == []
