"""Edits of deployed platform files, and the words that `trainway diff` must have for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.changes.edits import INDEX, NEXT_DAY, OWN_BASE, SECRET
from tests.synthesis import ROOT

Data = dict[str, Any]


@dataclass(frozen=True)
class Edited:
    """An edit of a base platform.

    `says` are lines of the text. `refused` are names of what is refused, with their keys in the file. `lost` are the
    names of everything that the platform has a word for and that is replaced or deleted. `wrong` is why
    `trainway check` refuses the file.
    """

    base: str
    change: Callable[[Data], Any]
    says: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    lost: tuple[str, ...] = ()
    wrong: str = ""


def group(data: Data, name: str) -> Data:
    """Return the node group of that name in a file's data."""
    found: Data = next(each for each in data["node_groups"] if each["name"] == name)
    return found


def lustre(data: Data, **keys: Any) -> Any:
    return data.setdefault("storage", {}).setdefault("lustre", {}).update(keys)


def new_group(name: str, **keys: Any) -> Data:
    return {"name": name, "instance_type": "g5.8xlarge", "count": 1, **keys}


def removed(name: str, nodes: str, base: str, position: int) -> dict[str, Any]:
    """Return the expectations of an edit that removes a node group with nodes from a base platform on EKS."""
    return {
        "change": lambda data: data["node_groups"].pop(position),
        "base": base,
        "says": (
            f"  deleted           subnet nodes-{name}",
            f"  deleted           node group {name}",
            f"                    cost: {nodes}",
            f"refused: node group {name} would be deleted",
        ),
        "refused": ((name, "node_groups"),),
        "lost": (name, f"nodes-{name}", f"{name.title()}Template"),
    }


NO_NODES_ELSEWHERE = "no changes: base-eks-network, base-eks-storage, base-eks-registry, base-eks-control-plane, "
ONLY_THE_CLUSTER = f"{NO_NODES_ELSEWHERE}base-eks-file-system, base-eks-image, base-eks-mirror, base-eks-observability"
# The runbook of events finds each team's runs.
ONLY_ACCESS = (
    "base-eks-observability\n  changed in place  1 × SSM::Document",
    f"{NO_NODES_ELSEWHERE}base-eks-file-system, base-eks-image, base-eks-mirror",
)
ADDED = (
    "  created           subnet nodes-dd",
    "  created           node group dd",
)
THROUGHPUT: dict[str, Any] = {
    "says": (
        "  replaced          file system storage.lustre",
        "                    LustreConfiguration.PerUnitStorageThroughput: 250 → 500, which may replace it",
        "                    cost: it is kept, outside of the stack, and jobs get a new one, which is empty",
        "  replaced          link to S3 LustreRunsRepository",
        "                    FileSystemId follows LustreFileSystem",
    ),
    "refused": (("storage.lustre", "storage.lustre.throughput_mbps_per_tib"),),
    "lost": (
        "storage.lustre", "LustreCorpusRepository", "LustreCheckpointsRepository", "LustreRunsRepository",
    ),
}  # fmt: skip
OWN_IMAGE = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{'0' * 64}"
DEVELOP: Data = {"develop": {"packages": {"apt": ["numactl"]}}}
ADDS = "  pipeline          builds the packages and Dockerfile and the image"
INSTALLS = "  pipeline          installs charts and applies Kubernetes objects"
A_LAYER_MORE = (
    f"base-eks-image\n{ADDS}",
    f"base-eks-cluster\n{INSTALLS}",
    "15 changed in place, 5 created. The deploy takes about 15 min or more.",
)
THE_SAME_IMAGE = (
    "base-eks-image\n"
    "  pipeline          builds nothing: the registry has the image, and its signature, copies, and logins are checked",
    f"{NO_NODES_ELSEWHERE}base-eks-file-system, base-eks-mirror, base-eks-observability",
)
FIVE_MINUTES = "7 changed in place. The deploy takes about 5 min or more."
ANOTHER_BASE = (
    "base-eks-image\n  pipeline          builds the base and the image",
    f"base-eks-cluster\n{INSTALLS}",
    "base-eks-observability\n  changed in place  1 × Events::Rule",
)


def kubernetes(**keys: Any) -> dict[str, Any]:
    """Return the expectations of an edit that adds an operator to a base platform on EKS."""
    return {
        "base": "eks",
        "change": lambda data: data["kubernetes"].update(keys),
        "says": (
            "base-eks-mirror\n  pipeline          copies images and charts into the registry",
            f"base-eks-cluster\n{INSTALLS}",
        ),
    }


def image(says: tuple[str, ...], **keys: Any) -> Edited:
    return Edited("eks", lambda data: data.update(image=keys), says)


EDITS: dict[str, Edited] = {
    "nothing": Edited("eks", lambda _: None, ("Nothing changes.",)),
    "add a group at the end": Edited("eks", lambda data: data["node_groups"].append(new_group("dd")), ADDED),
    "add a group first": Edited("eks", lambda data: data["node_groups"].insert(0, new_group("dd")), ADDED),
    "remove the first group": Edited(**removed("aa", "2 nodes stop, and the jobs on them", "eks", 0)),
    "remove the middle group": Edited(**removed("bb", "1 node stops, and the jobs on it", "eks", 1)),
    "remove an empty group": Edited(
        "eks",
        lambda data: data["node_groups"].pop(2),
        ("  deleted           subnet nodes-cc", "  deleted           node group cc"),
        lost=("cc", "nodes-cc", "CcTemplate"),
    ),
    "swap two groups": Edited("eks", lambda data: data["node_groups"].reverse(), (ONLY_THE_CLUSTER,)),
    "rename a group": Edited(
        "eks",
        lambda data: group(data, "bb").update(name="be"),
        ("  created           node group be", "  deleted           node group bb"),
        (("bb", "node_groups"),),
        ("bb", "nodes-bb", "BbTemplate"),
    ),
    "one more node": Edited(
        "eks",
        lambda data: group(data, "aa").update(count=3),
        ("  changed in place  node group aa", "                    cost: 1 node more", ONLY_THE_CLUSTER),
    ),
    "one node fewer": Edited(
        "eks",
        lambda data: group(data, "aa").update(count=1, max_count=2),
        (
            "                    ScalingConfig.DesiredSize: 2 → 1",
            "                    cost: from 2 running nodes to 1: 1 node stops, and the jobs on it",
        ),
    ),
    "another instance type": Edited(
        "eks",
        lambda data: group(data, "aa").update(instance_type="g5.12xlarge"),
        (
            "  replaced          node group aa",
            '                    InstanceTypes: ["g5.8xlarge"] → ["g5.12xlarge"]',
            "    why: InstanceTypes cannot change in a node group that exists; 2 nodes stop, and the jobs on them",
            ONLY_THE_CLUSTER,
        ),
        (("aa", "node_groups[0].instance_type"),),
        ("aa",),
    ),
    "another type of an empty group": Edited(
        "eks",
        lambda data: group(data, "cc").update(instance_type="g5.12xlarge"),
        ("  replaced          node group cc", ONLY_THE_CLUSTER),
        lost=("cc",),
    ),
    "a group in another zone": Edited(
        "eks", lambda data: group(data, "bb").update(zone="usw2-az1"), wrong="a subnet cannot change its zone"
    ),
    "spot instead of on demand": Edited(
        "eks",
        lambda data: group(data, "bb").update(capacity="spot"),
        ('                    CapacityType: "ON_DEMAND" → "SPOT"',),
        (("bb", "node_groups[1].capacity"),),
        ("bb",),
    ),
    "more throughput of Lustre": Edited("eks", lambda data: lustre(data, throughput_mbps_per_tib=500), **THROUGHPUT),
    "two edits, one refused": Edited(
        "eks", lambda data: (group(data, "aa").update(count=3), lustre(data, throughput_mbps_per_tib=500)), **THROUGHPUT
    ),
    "more capacity of Lustre": Edited(
        "eks",
        lambda data: lustre(data, capacity_tib=4.8),
        ("  changed in place  file system storage.lustre", "                    StorageCapacity: 2400 → 4800"),
    ),
    "another compression of Lustre": Edited(
        "eks",
        lambda data: lustre(data, compression=False),
        ('                    LustreConfiguration.DataCompressionType: "LZ4" → "NONE"',),
    ),
    "another link to S3": Edited(
        "eks",
        lambda data: lustre(data, import_from=["s3://corpus/web/"]),
        ("  created           link to S3 LustreImportCorpusWebRepository",),
    ),
    "another team": Edited("eks", lambda data: data["teams"].append({"name": "green"}), ONLY_ACCESS),
    "a team fewer": Edited("eks", lambda data: data["teams"].pop(), ONLY_ACCESS),
    # The image is built again too: with layers that SageMaker reads.
    "training jobs on SageMaker": Edited(
        "eks",
        lambda data: data.update(iam={"training_jobs": True}),
        # The rule for scans of the image names its tag.
        (
            "base-eks-image",
            "base-eks-observability\n  changed in place  1 × Events::Rule",
            f"{NO_NODES_ELSEWHERE}base-eks-file-system, base-eks-mirror",
        ),
    ),
    "another name": Edited(
        "eks",
        lambda data: data.update(name="renamed"),
        ("renamed-control-plane: a new stack", "  created           node group aa"),
    ),
    "mail of alarms": Edited(
        "eks",
        lambda data: data.update(observability={"notify": "me@example.com"}),
        ("  created           1 × SNS::Subscription",),
    ),
    "a HyperPod group first": Edited(
        "hyperpod-eks", lambda data: data["node_groups"].insert(0, new_group("dd")), ADDED
    ),
    "a HyperPod group fewer": Edited(
        "hyperpod-eks",
        lambda data: data["node_groups"].pop(1),
        ("  deleted           node group bb", "                    cost: 1 node stops, and the jobs on it"),
        (("bb", "node_groups"),),
        ("bb", "nodes-bb"),
    ),
    "another HyperPod type": Edited(
        "hyperpod-eks",
        lambda data: group(data, "bb").update(instance_type="g5.12xlarge"),
        ('                    InstanceType: "ml.g5.8xlarge" → "ml.g5.12xlarge", which may replace it',),
        (("bb", "node_groups[1].instance_type"),),
        ("bb",),
    ),
    "one more HyperPod node": Edited(
        "hyperpod-eks",
        lambda data: group(data, "aa").update(count=3),
        ("                    InstanceCount: 2 → 3", "                    cost: 1 node more"),
    ),
    "a Slurm group fewer": Edited(
        "hyperpod-slurm",
        lambda data: data["node_groups"].pop(1),
        ("  deleted           node group bb", "                    cost: 1 node stops, and the jobs on it"),
        (("bb", "node_groups"),),
        ("bb", "nodes-bb"),
    ),
    "a Slurm group more": Edited("hyperpod-slurm", lambda data: data["node_groups"].append(new_group("dd")), ADDED),
    "home directories": Edited(
        "hyperpod-slurm",
        lambda data: data.update(storage={"home": {}}),
        ("  created           file system storage.home",),
    ),
    # The registry keeps one more base, and nothing of the deployed image changes.
    "a further image": Edited(
        "eks",
        lambda data: data.update(images=DEVELOP),
        (
            f"base-eks-image-develop: a new stack\n{ADDS}",
            "base-eks-cluster\n  changed in place  2 × SSM::Parameter",
            "4 changed in place, 31 created. The deploy takes about 15 min or more.",
        ),
    ),
    "a further image of a group": Edited(
        "eks",
        lambda data: (data.update(images=DEVELOP), group(data, "aa").update(image="develop")),
        (f"base-eks-image-develop: a new stack\n{ADDS}", f"base-eks-cluster\n{INSTALLS}"),
    ),
    "a further image of a Slurm group": Edited(
        "hyperpod-slurm",
        lambda data: (data.update(images=DEVELOP), group(data, "aa").update(image="develop")),
        (
            f"base-hyperpod-slurm-image-develop: a new stack\n{ADDS}",
            "base-hyperpod-slurm-cluster\n  changed in place  2 × SSM::Parameter",
        ),
    ),
    "an image of one's own": Edited(
        "eks",
        lambda data: data.update(image={"uri": OWN_IMAGE}),
        (
            "                    cost: you lose its log lines",
            f"base-eks-cluster\n{INSTALLS}",
            f"{NO_NODES_ELSEWHERE}base-eks-file-system, base-eks-mirror, base-eks-observability",
        ),
        lost=("LogKey",),
    ),
    "a base of one's own": image(
        (*ANOTHER_BASE, "14 changed in place. The deploy takes about 30 min or more."),
        base=OWN_BASE,
        base_login={"secret": SECRET},
    ),
    "packages of another day": image(
        (*ANOTHER_BASE, "13 changed in place. The deploy takes about 30 min or more."), refresh=NEXT_DAY.isoformat()
    ),
    "packages of the image": image(A_LAYER_MORE, packages={"apt": ["libaio-dev"]}),
    "a Dockerfile": image(A_LAYER_MORE, dockerfile=str(ROOT / "examples/your-image")),
    "a signed image": image((*THE_SAME_IMAGE, "  created           1 × Signer::SigningProfile"), sign=True),
    "copies of the image": image((*THE_SAME_IMAGE, FIVE_MINUTES), replicate={"regions": ["us-east-1"]}),
    "another package index": image(
        (*THE_SAME_IMAGE, FIVE_MINUTES), build={"pip_index": INDEX, "pip_login": {"secret": SECRET}}
    ),
    "a secret of jobs": Edited(
        "eks",
        lambda data: data.update(secrets=[{"secret": SECRET}]),
        ("  changed in place  1 × IAM::Policy, 1 × SSM::Parameter", ONLY_THE_CLUSTER, "2 changed in place."),
    ),
    "KubeRay": Edited(**kubernetes(ray_operator=True)),
    "the MPI operator": Edited(**kubernetes(mpi_operator=True)),
    "the training operator": Edited(**kubernetes(pytorch_operator=True)),
}
