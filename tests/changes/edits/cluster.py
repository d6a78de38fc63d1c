"""Edits of what the cluster of a deployed platform runs."""

from __future__ import annotations

from typing import Any

from tests.changes.edit import KEY, KUBERNETES, SECRET, Edit, both, teams_with, with_keys, with_run_ai
from tests.changes.edits.shared import INSTALLS


def _operator(**keys: Any) -> Edit:
    """Return an edit that adds an operator of jobs to the cluster."""
    says = ("live-mirror\n  pipeline          copies images and charts into the registry", f"live-cluster\n{INSTALLS}")
    return Edit((with_keys("kubernetes", **keys),), REPOSITORIES, says=says, on=("eks",))


TEAM = {
    "tenant": "00000000-0000-4000-8000-00000000000a",
    "team": "00000000-0000-4000-8000-00000000000b",
    "channel": "19%3aa%40thread.tacv2",
}
REPOSITORIES = r"registry/[A-Z].*"
# The repositories of what Run:ai replaces.
KUEUE_AND_PLUGIN = ("ChartsKueue", "Kueue", "ChartsNvidiaDevicePlugin", "NvidiaDevicePlugin")
UPGRADED = (
    "note: EKS replaces the API servers of 1.34 by those of 1.35, which nobody can undo. Jobs run on. The nodes of 5 "
    "groups and the add-ons keep their versions: `trainway upgrade --check` lists the two deploys that follow. That of "
    "the nodes takes about 10 min for the largest group, one node after the other."
)

OF_CLUSTER: dict[str, Edit] = {
    "operators of jobs, one after the other": Edit(
        (
            with_keys("kubernetes", mpi_operator=True, ray_operator=True, pytorch_operator=True),
            with_keys("kubernetes", mpi_operator=True),
            with_keys("kubernetes", ray_operator=True),
        ),
        REPOSITORIES,
        on=KUBERNETES,
    ),
    "KubeRay": _operator(ray_operator=True),
    "the MPI operator": _operator(mpi_operator=True),
    "the training operator": _operator(pytorch_operator=True),
    "a login to Docker Hub": Edit(
        (
            with_keys("kubernetes", mpi_operator=True, docker_hub_login={"secret": SECRET}),
            with_keys("kubernetes", mpi_operator=True, docker_hub_login={"secret": SECRET, "key": KEY}),
            with_keys("kubernetes", mpi_operator=True),
        ),
        REPOSITORIES,
        on=KUBERNETES,
    ),
    "no chart of the trainer": Edit(
        (with_keys("kubernetes", trainer=False),),
        REPOSITORIES,
        gone=("TrainerControllerManager", "Jobset", "ChartsKubeflowTrainer"),
        on=KUBERNETES,
    ),
    "devices by claims": Edit(
        # The Cluster Autoscaler and Kueue do not support resource claims. The deploy removes both.
        (both(with_keys(teams=[]), with_keys("kubernetes", gpu_devices="dra")),),
        REPOSITORIES + "|cluster/(ClusterAutoscaler|KubernetesJobIn(Red|Blue|Training)).*",
        gone=(
            *KUEUE_AND_PLUGIN,
            *("ChartsAwsEfaK8sDevicePlugin", "AwsEfaK8sDevicePlugin", "ChartsClusterAutoscaler", "ClusterAutoscaler"),
        ),
        on=("eks",),
    ),
    "Run:ai's cluster: installed, of another control plane, and taken over by its owners": Edit(
        (
            with_run_ai(control_plane="https://acme.run.ai", secret="run-ai"),
            with_run_ai(control_plane="https://run-ai.example.com", secret=SECRET, key=KEY),
            teams_with("run-ai"),
        ),
        "cluster/.*|registry/.*|mirror/.*",
        gone=KUEUE_AND_PLUGIN,
        on=("eks",),
    ),
    "Run:ai": Edit(
        (teams_with("run-ai"), teams_with("kueue")),
        "cluster/.*|registry/.*",
        gone=KUEUE_AND_PLUGIN,
        on=("eks",),
    ),
    "an add-on": Edit((with_keys("hyperpod", training_operator=True),), "cluster/.*", on=("hyperpod-eks",)),
    "SageMaker Spaces": Edit((with_keys("hyperpod", spaces=True),), "cluster/.*", on=("hyperpod-eks",)),
    "collected metrics": Edit(
        (with_keys("observability", metrics="prometheus"),),
        "cluster/.*|registry/.*|control-plane/ControlPlane(PrometheusNodeExporter|KubeStateMetrics).*",
    ),
    "metrics that the controller collects, and other node settings": Edit(
        (
            with_keys("observability", metrics="prometheus"),
            both(with_keys("observability", metrics="prometheus"), with_keys("slurm", health_checks=False)),
        ),
        "cluster/.*",
        on=("hyperpod-slurm",),
    ),
    "the next version": Edit(
        (with_keys("kubernetes", version="1.35"),), says=(UPGRADED,), stays="older version", on=("eks",)
    ),
    "more system nodes": Edit((with_keys("kubernetes", system_nodes={"count": 3}),), on=KUBERNETES),
    "emails of high findings, too": Edit((with_keys("image", scan={"severity": "high"}),)),
    "messages to URLs and to Slack": Edit(
        (
            with_keys(
                "observability", urls=["https://a.example.com/told"], slack={"workspace": "T01", "channel": "C01"}
            ),
            with_keys(
                "observability", urls=["https://b.example.com/told"], slack={"workspace": "T02", "channel": "C01"}
            ),
            with_keys("observability", urls=[], slack=None),
        ),
        "observability/Alerts.*",
    ),
    "messages to Microsoft Teams": Edit(
        (
            with_keys("observability", microsoft_teams=TEAM),
            with_keys("observability", microsoft_teams=TEAM | {"channel": "19%3ab%40thread.tacv2"}),
            with_keys("observability", microsoft_teams=TEAM | {"tenant": "00000000-0000-4000-8000-00000000000c"}),
            with_keys("observability", microsoft_teams=None),
        ),
        "observability/Alerts.*",
    ),
    "emails of alarms": Edit(
        (with_keys("observability", notify="me@example.com"),),
        "observability/.*",
        says=("  created           1 × SNS::Subscription",),
        on=("eks",),
    ),
    "no emails of findings": Edit((with_keys("image", scan={"severity": None}),), "observability/ImageScan.*"),
}
