"""Edits of the file of a deployed platform: the output of the diff, the resources that may change, and refusals."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

from tests.changes.edit import (
    HYPERPOD,
    INDEX,
    KEY,
    KEY_2,
    KUBERNETES,
    NEXT_DAY,
    OWN_BASE,
    OWN_IMAGE,
    PROXY,
    ROLE,
    SECRET,
    SECRET_2,
    SLURM_USERS,
    Document,
    Edit,
    base,
    belonging_to,
    both,
    group,
    slurm_prefixes,
    team_directories,
    team_prefixes,
    teams_with,
    with_groups,
    with_keys,
    with_run_ai,
)
from tests.synthesis import ROOT


def _removed(*lines: str, **costs: str) -> dict[str, Any]:
    """Return the expectations of an edit that removes node groups. Each group has the cost of its nodes.

    `lines` are further ones that the diff prints.
    """
    says = [
        (
            f"  deleted           subnet nodes-{name}",
            f"  deleted           node group {name}",
            f"                    cost: {cost}",
            f"refused: node group {name} would be deleted",
        )
        for name, cost in costs.items()
    ]
    return {
        "loses": dict.fromkeys(costs, "node_groups"),
        "gone": tuple(each for name in costs for each in (name, f"nodes-{name}", f"{name.title()}Template")),
        "says": (*lines, *itertools.chain(*says)),
    }


def _operator(**keys: Any) -> Edit:
    """Return an edit that adds an operator of jobs to the cluster."""
    says = ("live-mirror\n  pipeline          copies images and charts into the registry", f"live-cluster\n{INSTALLS}")
    return Edit((with_keys("kubernetes", **keys),), REPOSITORIES, says=says, on=("eks",))


AA, BB, CC, DD = base("any", "eks")["node_groups"]
EE = group("ee")
LARGER = "g6e.12xlarge"
ONE_STOPS, TWO_STOP = "1 node stops, and the jobs on it", "2 nodes stop, and the jobs on them"
REPOSITORIES = r"registry/[A-Z].*"
# On HyperPod administrators may also repair nodes.
PEOPLE = r"cluster/(Kubernetes(AdminEntry|AdminRole|Principal)|NodeRepairs).*"
FURTHER = r"image-(develop|extra|more)/.*|observability/ImageScan(Develop|Extra|More).*"
DEVELOP: Document = {"develop": {"packages": {"apt": ["numactl"]}}}
# The repositories of what Run:ai replaces.
KUEUE_AND_PLUGIN = ("ChartsKueue", "Kueue", "ChartsNvidiaDevicePlugin", "NvidiaDevicePlugin")
LINKS = ("LustreCorpusRepository", "LustreCheckpointsRepository", "LustreRunsRepository")

# Lines that the diff prints.
NO_NODES_ELSEWHERE = "no changes: live-network, live-storage, live-registry, live-control-plane, live-file-system, "
ONLY_THE_CLUSTER = f"{NO_NODES_ELSEWHERE}live-image, live-mirror, live-observability"
# The runbook of events finds each team's runs.
ONLY_ACCESS = (
    "live-observability\n  changed in place  1 × SSM::Document",
    f"{NO_NODES_ELSEWHERE}live-image, live-mirror",
)
# What jobs notice.
BLUE_LEAVES = (
    "note: blue leaves the platform: its queue takes no more jobs, and what waits there waits for good. Data stays. "
    "Let the jobs end first, or stop them: `trainway status --team blue` lists them.",
    "note: running jobs of blue lose their role, and with it the bucket, secrets, and images: they fail when they read "
    "or save there.",
)
NO_WAY_OUT = (
    "note: nodes that run lose their way to the internet with the NAT gateway: in running jobs, pip, Hugging Face, "
    "trackers, and Git fail from then on. Let these jobs end first (docs/closed-network.md)."
)
UPGRADED = (
    "note: EKS replaces the API servers of 1.34 by those of 1.35, which nobody can undo. Jobs run on. The nodes of 5 "
    "groups and the add-ons keep their versions: `trainway upgrade --check` lists the two deploys that follow. That of "
    "the nodes takes about 10 min for the largest group, one node after the other."
)
ADDED = (
    "  created           subnet nodes-ee",
    "  created           node group ee",
)
THROUGHPUT: dict[str, Any] = {
    "says": (
        "  replaced          file system storage.lustre",
        "                    LustreConfiguration.PerUnitStorageThroughput: 1000 → 500, which may replace it",
        "                    cost: it is kept, outside of the stack, and jobs get a new one, which is empty",
        "  replaced          link to S3 LustreRunsRepository",
        "                    FileSystemId follows LustreFileSystem",
    ),
    "loses": {"storage.lustre": "storage.lustre.throughput_mbps_per_tib"},
    "gone": ("storage.lustre", *LINKS),
    "refused": "storage.lustre would be replaced",
}
ADDS = "  pipeline          builds the packages and Dockerfile and the image"
INSTALLS = "  pipeline          installs charts and applies Kubernetes objects"
A_LAYER_MORE = (
    f"live-image\n{ADDS}",
    f"live-cluster\n{INSTALLS}",
    "15 changed in place, 5 created. The deploy takes about 16 min or more.",
)
THE_SAME_IMAGE = (
    "live-image\n"
    "  pipeline          builds nothing: the registry has the image, and its signature, copies, and logins are checked",
    f"{NO_NODES_ELSEWHERE}live-mirror, live-observability",
)
FIVE_MINUTES = "7 changed in place. The deploy takes about 5 min or more."
ANOTHER_BASE = (
    "live-image\n  pipeline          builds the base and the image",
    f"live-cluster\n{INSTALLS}",
    "live-observability\n  changed in place  1 × Events::Rule",
)

REMOVED_AND_ADDED = "remove one group and add another"
EDITS: dict[str, Edit] = {
    "nothing": Edit((with_keys(),), says=("Nothing changes.",)),
    # node groups
    "remove the first group": Edit((with_groups(BB, CC, DD),), belonging_to("aa"), **_removed(aa=TWO_STOP)),
    "remove the middle group": Edit((with_groups(AA, CC, DD),), belonging_to("bb"), **_removed(bb=ONE_STOPS)),
    "remove the last group": Edit((with_groups(AA, BB, CC),), belonging_to("dd"), **_removed(dd=ONE_STOPS)),
    "remove two groups": Edit((with_groups(BB, CC),), belonging_to("aa", "dd"), **_removed(aa=TWO_STOP, dd=ONE_STOPS)),
    "remove an empty group": Edit(
        (with_groups(AA, BB, DD),),
        belonging_to("cc"),
        gone=("cc", "nodes-cc", "CcTemplate"),
        says=("  deleted           subnet nodes-cc", "  deleted           node group cc"),
    ),
    "add a first group": Edit((with_groups(EE, AA, BB, CC, DD),), belonging_to("ee"), back_loses=("ee",), says=ADDED),
    "add a middle group": Edit((with_groups(AA, EE, BB, CC, DD),), belonging_to("ee"), back_loses=("ee",), says=ADDED),
    "add a last group": Edit((with_groups(AA, BB, CC, DD, EE),), belonging_to("ee"), back_loses=("ee",), says=ADDED),
    "add a group in the other zone": Edit(
        (with_groups(AA, BB, CC, DD, group("ee", zone="usw2-az1")),), belonging_to("ee"), back_loses=("ee",), says=ADDED
    ),
    "add a group larger than a share": Edit(
        (with_groups(group("ee", max_count=90), AA, BB, CC, DD),),
        "cluster/NetworkCidr.*|" + belonging_to("ee"),
        back_loses=("ee",),
        says=ADDED,
    ),
    REMOVED_AND_ADDED: Edit(
        (with_groups(AA, EE, CC, DD),),
        belonging_to("bb", "ee"),
        **_removed(*ADDED, bb=ONE_STOPS),
        back_loses=("ee",),
    ),
    "rename the first group": Edit(
        (with_groups(AA | {"name": "zz"}, BB, CC, DD),),
        belonging_to("aa", "zz"),
        **_removed("  created           node group zz", aa=TWO_STOP),
        back_loses=("zz",),
    ),
    "rename the last group": Edit(
        (with_groups(AA, BB, CC, group("zz")),),
        belonging_to("dd", "zz"),
        **_removed("  created           node group zz", dd=ONE_STOPS),
        back_loses=("zz",),
    ),
    "swap two groups": Edit((with_groups(BB, AA, CC, DD),), says_on={"eks": (ONLY_THE_CLUSTER,)}),
    "reverse the groups": Edit((with_groups(DD, CC, BB, AA),), says_on={"eks": (ONLY_THE_CLUSTER,)}),
    "more nodes": Edit(
        (with_groups(AA | {"count": 3}, BB, CC, DD),),
        says=("                    cost: 1 node more",),
        says_on={
            "eks": ("  changed in place  node group aa", ONLY_THE_CLUSTER),
            "hyperpod-eks": ("                    InstanceCount: 2 → 3",),
        },
    ),
    "fewer nodes": Edit(
        (with_groups(AA | {"count": 1, "max_count": 2}, BB, CC, DD),),
        says=(
            "                    ScalingConfig.DesiredSize: 2 → 1",
            "                    cost: from 2 running nodes to 1: 1 node stops, and the jobs on it",
        ),
        on=("eks",),
    ),
    "a larger group": Edit((with_groups(AA, group("bb", max_count=16), CC, DD),)),
    "a smaller group": Edit((with_groups(AA, group("bb", max_count=2), CC, DD),)),
    "a group that outgrows its subnet": Edit(
        (with_groups(AA, group("bb", max_count=5000), CC, DD),), refused="a subnet cannot grow"
    ),
    "another type of a group": Edit(
        (with_groups(AA | {"instance_type": LARGER}, BB, CC, DD),),
        belonging_to("aa"),
        {"aa": "node_groups[0].instance_type"},
        ("aa",),
        gone=("aa",),
        says_on={
            "eks": (
                "  replaced          node group aa",
                '                    InstanceTypes: ["g6e.8xlarge"] → ["g6e.12xlarge"]',
                f"    why: InstanceTypes cannot change in a node group that exists; {TWO_STOP}",
                ONLY_THE_CLUSTER,
            ),
            "hyperpod-eks": (
                '                    InstanceType: "ml.g6e.8xlarge" → "ml.g6e.12xlarge", which may replace it',
            ),
        },
    ),
    "another type of an empty group": Edit(
        (with_groups(AA, BB, CC | {"instance_type": LARGER}, DD),),
        belonging_to("cc"),
        gone=("cc",),
        says=("  replaced          node group cc", ONLY_THE_CLUSTER),
        on=("eks",),
    ),
    "spot instead of on demand": Edit(
        (with_groups(AA, group("bb", capacity="spot"), CC, DD),),
        "observability/EventsSpotInterrupted.*|" + belonging_to("bb"),
        {"bb": "node_groups[1].capacity"},
        ("bb",),
        gone=("bb",),
        says=('                    CapacityType: "ON_DEMAND" → "SPOT"',),
        on=("eks",),
    ),
    "another zone of a group": Edit(
        (with_groups(AA, group("bb", zone="usw2-az1"), CC, DD),), refused="a subnet cannot change its zone"
    ),
    "another order of the zones": Edit((with_keys(zones=["usw2-az1", "usw2-az2"]),), refused="cannot change its zone"),
    "another zone and name of a group": Edit(
        (with_groups(AA, group("zz", zone="usw2-az1"), CC, DD),),
        belonging_to("bb", "zz"),
        **_removed(bb=ONE_STOPS),
        back_loses=("zz",),
    ),
    # the image
    "packages, a Dockerfile, and an image of one's own": Edit(
        (
            with_keys("image", packages={"apt": ["libaio-dev"]}),
            with_keys("image", packages={"apt": ["libaio-dev", "numactl"]}),
            with_keys("image", packages={"apt": ["libaio-dev"]}, dockerfile=str(ROOT / "examples/your-image")),
            with_keys("image", uri=OWN_IMAGE),
        ),
        "image/.*",
        says_on={"eks": A_LAYER_MORE},
    ),
    "a Dockerfile": Edit(
        (with_keys("image", dockerfile=str(ROOT / "examples/your-image")),), "image/.*", says=A_LAYER_MORE, on=("eks",)
    ),
    "an image of one's own": Edit(
        (with_keys("image", uri=OWN_IMAGE),),
        "image/.*",
        gone=("LogKey",),
        says=(
            "                    cost: you lose its log lines",
            f"live-cluster\n{INSTALLS}",
            f"{NO_NODES_ELSEWHERE}live-mirror, live-observability",
        ),
        on=("eks",),
    ),
    # The registry keeps one more base, and nothing of the deployed image changes.
    "a further image": Edit(
        (with_keys(images=DEVELOP),),
        FURTHER,
        says=(
            f"live-image-develop: a new stack\n{ADDS}",
            "live-cluster\n  changed in place  2 × SSM::Parameter",
            "4 changed in place, 31 created. The deploy takes about 16 min or more.",
        ),
        on=("eks",),
    ),
    "a further image of a group": Edit(
        (with_keys(images=DEVELOP, node_groups=[AA | {"image": "develop"}, BB, CC, DD]),),
        FURTHER,
        says=(f"live-image-develop: a new stack\n{ADDS}",),
        says_on={
            "eks": (f"live-cluster\n{INSTALLS}",),
            "hyperpod-slurm": ("live-cluster\n  changed in place  2 × SSM::Parameter",),
        },
        on=("eks", "hyperpod-slurm"),
    ),
    "further images: two, one changed, one of another name, and one that a group names": Edit(
        (
            with_keys(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["libaio-dev"]}}}),
            with_keys(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["numactl"]}}}),
            with_keys(images={"develop": {"base": "devel"}, "more": {"packages": {"apt": ["numactl"]}}}),
            with_keys(images={"develop": {"base": "devel"}}, node_groups=[AA, group("bb", image="develop"), CC, DD]),
        ),
        FURTHER,
    ),
    "a base of one's own, with a login, and its own packages": Edit(
        (
            with_keys("image", base=OWN_BASE, base_login={"secret": SECRET}),
            with_keys("image", base=OWN_BASE),
            with_keys("image", base=OWN_BASE, base_login={"secret": SECRET_2, "key": KEY}),
            with_keys("image", base=OWN_BASE.replace("0" * 64, "1" * 64), base_login={"secret": SECRET_2, "key": KEY}),
            with_keys("image", base=OWN_BASE, base_packages="kept"),
        ),
        "image/.*",
        says_on={"eks": (*ANOTHER_BASE, "14 changed in place. The deploy takes about 30 min or more.")},
    ),
    "a package index with a login": Edit(
        (
            with_keys("image", build={"pip_index": INDEX, "pip_login": {"secret": SECRET}}),
            with_keys("image", build={"pip_index": INDEX}),
            with_keys("image", build={"pip_index": f"{INDEX}/other", "pip_login": {"secret": SECRET_2, "key": KEY}}),
        ),
        "image/.*",
        says_on={"eks": (*THE_SAME_IMAGE, FIVE_MINUTES)},
    ),
    "packages of other days": Edit(
        (with_keys("image", refresh=NEXT_DAY), with_keys("image", refresh=NEXT_DAY + timedelta(days=1))),
        "image/.*",
        says_on={"eks": (*ANOTHER_BASE, "13 changed in place. The deploy takes about 30 min or more.")},
    ),
    "a proxy of builds": Edit(
        (
            with_keys("network", proxy={"https": PROXY}),
            with_keys("network", proxy={"https": PROXY, "no_proxy": [".example.com"]}),
            with_keys("network", proxy={"https": PROXY.replace("3128", "8080"), "http": PROXY}),
        ),
        "(image|mirror|cluster)/.*",
    ),
    "an image that is signed, and no more": Edit(
        (with_keys("image", sign=True), with_keys("image", sign=False)),
        "image/SigningProfile",
        says_on={"eks": (*THE_SAME_IMAGE, "  created           1 × Signer::SigningProfile")},
    ),
    "copies of the image": Edit(
        (with_keys("image", replicate={"regions": ["us-east-1"]}),),
        "image/.*",
        says=(*THE_SAME_IMAGE, FIVE_MINUTES),
        on=("eks",),
    ),
    # storage
    "a link": Edit(
        (
            with_keys("storage", "lustre", import_from=["s3://corpus/web/"]),
            with_keys("storage", "lustre", import_from=["s3://mine/b/"]),
        ),
        "file-system/LustreImport.*",
        says=("  created           link to S3 LustreImportCorpusWebRepository",),
    ),
    "no mirror": Edit(
        (with_keys("storage", "lustre", mirror=False),),
        "file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
        gone=LINKS,
    ),
    "other throughput": Edit((with_keys("storage", "lustre", throughput_mbps_per_tib=500),), **THROUGHPUT),
    "two edits, one refused": Edit(
        (
            both(
                with_groups(AA | {"count": 3}, BB, CC, DD),
                with_keys("storage", "lustre", throughput_mbps_per_tib=500),
            ),
        ),
        **THROUGHPUT,
        on=("eks",),
    ),
    "more capacity": Edit(
        (with_keys("storage", "lustre", capacity_tib=9.6),),
        says=("  changed in place  file system storage.lustre", "                    StorageCapacity: 4800 → 9600"),
        told_only=True,
        on=("eks",),
    ),
    "another compression": Edit(
        (with_keys("storage", "lustre", compression=False),),
        says=('                    LustreConfiguration.DataCompressionType: "LZ4" → "NONE"',),
        told_only=True,
        on=("eks",),
    ),
    "efa of the file system": Edit((with_keys("storage", "lustre", efa=True),), refused="storage.lustre.efa"),
    "a key of the bucket": Edit((with_keys("storage", "bucket", key=KEY), with_keys("storage", "bucket", key=KEY_2))),
    "a key of the file system": Edit(
        (with_keys("storage", "lustre", key=KEY), with_keys("storage", "lustre", key=KEY_2)),
        refused="storage.lustre.key",
    ),
    "a file system in the place of the one in use": Edit(
        (with_keys("storage", "lustre", generation=2),), refused="storage.former_lustre"
    ),
    "a former file system that never was": Edit(
        (with_keys("storage", former_lustre={"generation": 2, "capacity_tib": 4.8}),),
        refused="no file system of generation 2",
    ),
    "no file system at once": Edit(
        (with_keys("storage", lustre=None),), refused="write its section as `storage.former_lustre`", on=("eks",)
    ),
    "no file system on HyperPod": Edit(
        (with_keys("storage", lustre=None),), refused="requires a file system", on=HYPERPOD
    ),
    "dynamic volumes": Edit((with_keys("storage", "lustre", dynamic_volumes=True),), "cluster/.*", on=KUBERNETES),
    "root squash": Edit((with_keys("storage", "lustre", root_squash={}),), "file-system/.*"),
    "home directories": Edit(
        (with_keys("storage", home={}),),
        "file-system/Home.*",
        back_loses=("storage.home",),
        says=("  created           file system storage.home",),
        on=("hyperpod-slurm",),
    ),
    "a key of the volumes": Edit(
        (with_keys("hyperpod", volume_key=KEY), with_keys("hyperpod", volume_key=KEY_2)), on=HYPERPOD
    ),
    # people and jobs
    "a team of Slurm users": Edit(
        (
            with_keys(slurm=SLURM_USERS, teams=[{"name": "red", "users": ["ana"]}]),
            with_keys(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
        ),
        on=("hyperpod-slurm",),
    ),
    "another team": Edit(
        (lambda document: document["teams"].append({"name": "green"}),),
        "cluster/KubernetesJobInGreen.*",
        says=ONLY_ACCESS,
        on=("eks",),
    ),
    "a team fewer, one that does not borrow, another one, and none": Edit(
        (
            with_keys(teams=[{"name": "red"}]),
            with_keys(teams=[{"name": "red", "borrow": False}]),
            with_keys(teams=[{"name": "blue"}]),
            with_keys(teams=[]),
        ),
        "cluster/.*|registry/.*",
        says=(*ONLY_ACCESS, *BLUE_LEAVES),
        on=("eks",),
    ),
    "a team": Edit(
        (
            with_keys(teams=[{"name": "red"}]),
            with_keys(teams=[{"name": "red", "borrow": False}]),
            with_keys(teams=[{"name": "blue"}]),
        ),
        "cluster/.*|registry/.*",
        on=("hyperpod-eks",),
    ),
    "prefixes of teams": Edit(
        (
            with_keys(teams=[{"name": "red"}]),
            team_prefixes(),
            team_prefixes(shared=["corpus/web"], data=["checkpoints/llama"]),
            team_prefixes(shared=["corpus/code"], data=["checkpoints/other"]),
            team_prefixes(),
            with_keys(teams=[{"name": "red"}]),
        ),
        "cluster/.*|registry/.*",
        on=KUBERNETES,
    ),
    "prefixes of teams on Slurm, of which one gets another name": Edit(
        (
            slurm_prefixes("red"),
            slurm_prefixes("red", "blue"),
            slurm_prefixes("green", "blue"),
            with_keys(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
        ),
        "cluster/SlurmJobRoleOf(Red|Blue|Green)[A-Z0-9].*",
        on=("hyperpod-slurm",),
    ),
    "directories of teams": Edit(
        (team_directories(False), team_directories(True), team_directories(False)),
        "(cluster|registry)/.*|file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
        gone=LINKS,
        on=KUBERNETES,
    ),
    "no walls around jobs": Edit((with_keys(slurm={"job_walls": False}),), on=("hyperpod-slurm",)),
    "a shared /tmp": Edit((with_keys(slurm={"private_tmp": False}),), on=("hyperpod-slurm",)),
    "a viewer": Edit((with_keys("kubernetes", viewers=[ROLE]),), "cluster/.*", on=KUBERNETES),
    # The deploy also builds the image again, with layers that SageMaker supports.
    "training jobs": Edit(
        (with_keys("iam", training_jobs=True),),
        "cluster/TrainingJob.*",
        # The rule for scans of the image names its tag.
        says_on={
            "eks": (
                "live-image",
                "live-observability\n  changed in place  1 × Events::Rule",
                f"{NO_NODES_ELSEWHERE}live-mirror",
            )
        },
    ),
    "roles of people": Edit(
        (with_keys("iam", persona_roles=True),), PEOPLE, gone=("KubernetesPrincipalb74ee6ad",), on=KUBERNETES
    ),
    "secrets of jobs: one, another with a key, and none": Edit(
        (
            with_keys(secrets=[{"secret": SECRET}]),
            with_keys(secrets=[{"secret": SECRET}, {"secret": SECRET_2, "key": KEY}]),
        ),
        says_on={
            "eks": (
                "  changed in place  1 × IAM::Policy, 1 × SSM::Parameter",
                ONLY_THE_CLUSTER,
                "2 changed in place.",
            )
        },
    ),
    "the endpoint of the API": Edit(
        (
            with_keys("kubernetes", endpoint={"public_to": ["203.0.113.0/24"]}),
            with_keys("kubernetes", endpoint={"public_to": ["198.51.100.0/24"]}),
        ),
        "cluster/.*",
        on=KUBERNETES,
    ),
    # what the cluster runs
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
    "another add-on": Edit((with_keys("hyperpod", observability=True),), "cluster/.*", on=("hyperpod-eks",)),
    "collected metrics": Edit(
        (with_keys("kubernetes", observability=True), with_keys("kubernetes", observability=True, queues="none")),
        "cluster/.*|registry/.*|control-plane/ControlPlane(PrometheusNodeExporter|KubeStateMetrics).*",
        on=("eks",),
    ),
    "metrics that the controller collects": Edit(
        (with_keys("slurm", observability=True), with_keys("slurm", observability=True, health_checks=False)),
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
    "emails of alarms": Edit(
        (with_keys("observability", notify="me@example.com"),),
        "observability/.*",
        says=("  created           1 × SNS::Subscription",),
        on=("eks",),
    ),
    "no emails of findings": Edit((with_keys("image", scan={"severity": None}),), "observability/ImageScan.*"),
    # the network
    "a closed network": Edit(
        (with_keys(network="closed"),),
        "(network|registry|cluster|image|mirror|file-system|control-plane)/.*",
        says=(NO_WAY_OUT,),
        gone=("public-0", "public-1"),
    ),
    "another range": Edit((with_keys("network", cidr="10.1.0.0/16"),), refused="the range of a VPC cannot change"),
    "a third zone": Edit(
        (with_keys(zones=["usw2-az2", "usw2-az1", "usw2-az3"]),), refused="can have no other zones", on=KUBERNETES
    ),
    "one zone": Edit((with_keys(zones=["usw2-az2"]),), refused="keep usw2-az1 in the list"),
}
