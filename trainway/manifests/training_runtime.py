"""Kubeflow Trainer runtimes for TrainJobs that people write themselves, with the settings that all jobs share.

`trainway launch` makes a runtime for each run instead (trainway/launch/kubernetes/train_job.py).

https://github.com/kubeflow/trainer/blob/v2.3.0/manifests/base/runtimes/torch_distributed.yaml (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.device_claims import claims_of_a_node
from trainway.manifests.kai import SCHEDULER, close_together
from trainway.manifests.life_cycle import RESTARTS, restarted_as_a_whole
from trainway.manifests.lustre_volume import claim_of
from trainway.manifests.pod import USER, Pod, pod_template
from trainway.manifests.run_ai import RUN_AI_SCHEDULER
from trainway.manifests.taints import tolerations
from trainway.manifests.team_directories import DIRECTORY_OF_NAMESPACE
from trainway.manifests.topology import HOSTNAME
from trainway.spec.capacity.devices import devices_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE, NODE_PATH
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.storage import MOUNT_PATH

RUNTIME = "trainway-torch"
IMAGE_FACT = "TRAINWAY_IMAGE"


def training_runtimes(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return ClusterTrainingRuntimes for torchrun with the platform's image, file system, and shared memory.

    Empty without Trainer. The first runtime is for jobs that request devices. A TrainJob cannot claim devices, so each
    node group whose devices are claimed has a runtime of its own. That runtime also has the requests beside the claims,
    because Trainer drops the claims of a TrainJob that has requests. A node group that names an image has a runtime of
    its own as well.

    No runtime sets the number of processes per node, for which `mlPolicy.torch` has no field. A TrainJob sets it as
    `trainer.numProcPerNode`, which Trainer passes to torchrun as PET_NPROC_PER_NODE. For a TrainJob without the key,
    Trainer passes `auto` if GPUs are requested, and otherwise the number of requested CPUs.
    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go (PodSpecPatch)
    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/core/trainingruntime.go (newRuntimeInfo)
    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go (EnforceMLPolicy; all
    read 2026-11-22)
    """
    if not platform.kubernetes_or_default.trainer:
        return []
    with_own = [group for group in platform.node_groups if _has_own(platform, group, catalogue)]
    return [
        _runtime(platform, catalogue, RUNTIME),
        *(_runtime(platform, catalogue, f"{RUNTIME}-{group.name}", group) for group in with_own),
    ]


def runtime_of(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> str | None:
    """Return the name of the runtime for jobs that use whole nodes of the group. None without Trainer."""
    if not platform.kubernetes_or_default.trainer:
        return None
    return f"{RUNTIME}-{group.name}" if _has_own(platform, group, catalogue) else RUNTIME


def image_fact(image: str) -> str:
    """Return the name of the variable with the URI of an image, which manifests have in place of the URI."""
    return IMAGE_FACT if image == DEFAULT_IMAGE else f"{IMAGE_FACT}_{image.upper().replace('-', '_')}"


def _has_own(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> bool:
    return group.image is not None or bool(claims_of_a_node(platform, group, catalogue))


def _runtime(platform: Platform, catalogue: Catalogue, name: str, group: NodeGroup | None = None) -> dict[str, Any]:
    requested = {
        each.resource: each.count
        for each in (devices_of(platform, group, catalogue) if group else ())
        if not each.device_class
    }
    lustre = platform.storage.lustre
    image = (group and group.image) or DEFAULT_IMAGE
    pod = Pod(
        name="node",
        image=f"${{{image_fact(image)}}}",
        mount_path=MOUNT_PATH if lustre else NODE_PATH,
        claim=claim_of(lustre.generation) if lustre else None,
        directory=DIRECTORY_OF_NAMESPACE if platform.storage.team_directories else None,
        user=USER if platform.storage.team_directories else None,
        resources={"limits": requested} if requested else None,
        claims=claims_of_a_node(platform, group, catalogue) if group else (),
        tolerations=tolerations(platform, catalogue, image),
        scheduler=SCHEDULER if platform.kai else RUN_AI_SCHEDULER if platform.run_ai else None,
        # Place pods as close together as possible. Kueue goes up from this level, which every flavor has, so that the
        # preference excludes no nodes. Without it, the pods would fill gaps all over the network.
        # https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/#user-facing-apis (read 2026-11-21)
        annotations={"kueue.x-k8s.io/podset-preferred-topology": HOSTNAME} if platform.kueue else None,
    )
    job: dict[str, Any] = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pod_template(pod)},
    }
    if platform.kai:
        job["metadata"]["annotations"] = close_together(platform, catalogue)
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": restarted_as_a_whole({"name": "node", "template": job}, RESTARTS)},
        },
    }
