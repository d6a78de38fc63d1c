"""The edits of a live platform's file: what each may move, and whether it is deployed or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.synthesis import ROOT
from trainway.spec.loader import load_versions

Document = dict[str, Any]
Change = Callable[[Document], None]
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
KUBERNETES = ("eks", "hyperpod-eks")
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
KEY_2 = KEY.replace("1234abcd", "5678abcd")
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:first-AbCdEf"
SECRET_2 = SECRET.replace("first", "second")
OWN_BASE = f"nvcr.io/nvidia/pytorch:26.10-py3@sha256:{'0' * 64}"
INDEX, PROXY = "https://packages.example.org/simple", "http://proxy.example.com:3128"
IMAGES = load_versions().images[0]
assert IMAGES.packages
# The first day that image.refresh can name.
NEXT_DAY = IMAGES.packages + timedelta(days=1)
SLURM_USERS = {"users": [{"name": "ana", "uid": 20001}]}
ROLE = "arn:aws:iam::111122223333:role/Researcher"


def base(name: str, orchestrator: str) -> Document:
    """The platform that each edit begins and ends with: groups with two nodes, one, none, and one."""
    document: Document = {
        "name": name,
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": orchestrator,
        "node_groups": [group("aa", count=2), group("bb"), group("cc", count=0), group("dd")],
        "storage": {"lustre": {"capacity_tib": 4.8, "throughput_mbps_per_tib": 1000}},
    }
    if orchestrator != "hyperpod-slurm":
        document["kubernetes"] = {"admins": ["arn:aws:iam::111122223333:role/Admin"], "version": "1.34"}
    if orchestrator == "eks":
        document["teams"] = [{"name": "red"}, {"name": "blue"}]
    return document


def group(name: str, **settings: Any) -> Document:
    return {"name": name, "instance_type": "g6e.8xlarge", "count": 1, "max_count": 4} | settings


@dataclass(frozen=True)
class Edit:
    """One edit, in the steps that it takes; afterwards the file is what it was before.

    `moves` is a pattern of what the steps may create, delete, or replace, as `role/logical id`; empty for nothing.
    `loses` are the names of what the steps lose, which `trainway diff` refuses until they are allowed, and `back_loses`
    those of the way back. `refused` is a part of the reason if the steps are refused for good. `stays` is one if the
    way back is.
    """

    steps: tuple[Change, ...]
    moves: str = ""
    loses: tuple[str, ...] = ()
    back_loses: tuple[str, ...] = ()
    refused: str | None = None
    stays: str | None = None
    on: tuple[str, ...] = ORCHESTRATORS

    def documents(self, name: str, orchestrator: str) -> list[Document]:
        """Return the file after each step, every one made from the base."""
        found = []
        for step in self.steps:
            document = base(name, orchestrator)
            step(document)
            found.append(document)
        return found


def _groups(*groups: Document) -> Change:
    return lambda document: document.update(node_groups=list(groups))


def _set(*path: str, **values: Any) -> Change:
    def change(document: Document) -> None:
        section = document
        for key in path:
            section = section.setdefault(key, {})
        section.update(values)

    return change


def _both(*changes: Change) -> Change:
    def change(document: Document) -> None:
        for each in changes:
            each(document)

    return change


def _teams_with(queues: str) -> Change:
    def change(document: Document) -> None:
        document["teams"] = [{"name": "red"}]
        document["kubernetes"] |= {"queues": queues, "gpu_devices": "operator"}

    return change


def _run_ai(**section: str) -> Change:
    def change(document: Document) -> None:
        document["teams"] = [{"name": "red", "guarantee": {"g6e.8xlarge": 1}}, {"name": "blue"}]
        document["kubernetes"] |= {"run_ai": section, "gpu_devices": "operator", "system_nodes": {"count": 4}}

    return change


def _team_prefixes(shared: list[str] | None = None, data: list[str] | None = None) -> Change:
    def change(document: Document) -> None:
        document["teams"] = [{"name": "red"} | ({"data": data} if data else {})]
        document["storage"]["bucket"] = {"team_prefixes": True} | ({"shared": shared} if shared else {})
        document["iam"] = {"training_jobs": True}

    return change


def _slurm_prefixes(*teams: str) -> Change:
    def change(document: Document) -> None:
        document["slurm"] = SLURM_USERS
        document["teams"] = [{"name": name, "users": ["ana"]} for name in teams]
        document["storage"]["bucket"] = {"team_prefixes": True}

    return change


def _team_directories(chosen: bool) -> Change:
    def change(document: Document) -> None:
        _team_prefixes()(document)
        document["storage"]["lustre"] |= {"mirror": False, "team_directories": chosen}

    return change


def _of(*names: str) -> str:
    """What belongs to node groups of these names."""
    return rf"cluster/(Network)?(Nodes)?({'|'.join(name.capitalize() for name in names)})[A-Z].*"


AA, BB, CC, DD = base("any", "eks")["node_groups"]
EE = group("ee")
REPOSITORIES = r"registry/[A-Z].*"
# On HyperPod administrators may also repair nodes.
PEOPLE = r"cluster/(Kubernetes(AdminEntry|AdminRole|Principal)|NodeRepairs).*"

EDITS: dict[str, Edit] = {
    # node groups
    "remove the first group": Edit((_groups(BB, CC, DD),), _of("aa"), loses=("aa",)),
    "remove the middle group": Edit((_groups(AA, CC, DD),), _of("bb"), loses=("bb",)),
    "remove the last group": Edit((_groups(AA, BB, CC),), _of("dd"), loses=("dd",)),
    "remove two groups": Edit((_groups(BB, CC),), _of("aa", "dd"), loses=("aa", "dd")),
    "add a first group": Edit((_groups(EE, AA, BB, CC, DD),), _of("ee"), back_loses=("ee",)),
    "add a middle group": Edit((_groups(AA, EE, BB, CC, DD),), _of("ee"), back_loses=("ee",)),
    "add a last group": Edit((_groups(AA, BB, CC, DD, EE),), _of("ee"), back_loses=("ee",)),
    "add a group in the other zone": Edit(
        (_groups(AA, BB, CC, DD, group("ee", zone="usw2-az1")),), _of("ee"), back_loses=("ee",)
    ),
    "add a group larger than a share": Edit(
        (_groups(group("ee", max_count=90), AA, BB, CC, DD),), "cluster/NetworkCidr.*|" + _of("ee"), back_loses=("ee",)
    ),
    "remove one group and add another": Edit(
        (_groups(AA, EE, CC, DD),), _of("bb", "ee"), loses=("bb",), back_loses=("ee",)
    ),
    "rename the first group": Edit(
        (_groups(AA | {"name": "zz"}, BB, CC, DD),), _of("aa", "zz"), loses=("aa",), back_loses=("zz",)
    ),
    "rename the last group": Edit(
        (_groups(AA, BB, CC, group("zz")),), _of("dd", "zz"), loses=("dd",), back_loses=("zz",)
    ),
    "swap two groups": Edit((_groups(BB, AA, CC, DD),)),
    "reverse the groups": Edit((_groups(DD, CC, BB, AA),)),
    "more nodes": Edit((_groups(AA, group("bb", count=3), CC, DD),)),
    "a larger group": Edit((_groups(AA, group("bb", max_count=16), CC, DD),)),
    "a smaller group": Edit((_groups(AA, group("bb", max_count=2), CC, DD),)),
    "a group that outgrows its subnet": Edit(
        (_groups(AA, group("bb", max_count=5000), CC, DD),), refused="a subnet cannot grow"
    ),
    "another type of a group": Edit(
        (_groups(AA, group("bb", instance_type="g6e.12xlarge"), CC, DD),), _of("bb"), loses=("bb",), back_loses=("bb",)
    ),
    "another zone of a group": Edit(
        (_groups(AA, group("bb", zone="usw2-az1"), CC, DD),), refused="cannot change its zone"
    ),
    "another order of the zones": Edit((_set(zones=["usw2-az1", "usw2-az2"]),), refused="cannot change its zone"),
    "another zone and name of a group": Edit(
        (_groups(AA, group("zz", zone="usw2-az1"), CC, DD),), _of("bb", "zz"), loses=("bb",), back_loses=("zz",)
    ),
    # the image
    "packages, a Dockerfile, and an image of one's own": Edit(
        (
            _set("image", packages={"apt": ["libaio-dev"]}),
            _set("image", packages={"apt": ["libaio-dev", "numactl"]}),
            _set("image", packages={"apt": ["libaio-dev"]}, dockerfile=str(ROOT / "examples/your-image")),
            _set("image", uri=f"111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{'0' * 64}"),
        ),
        "image/.*",
    ),
    "further images: two, one changed, one of another name, and one that a group names": Edit(
        (
            _set(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["libaio-dev"]}}}),
            _set(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["numactl"]}}}),
            _set(images={"develop": {"base": "devel"}, "more": {"packages": {"apt": ["numactl"]}}}),
            _set(images={"develop": {"base": "devel"}}, node_groups=[AA, group("bb", image="develop"), CC, DD]),
        ),
        "image-(develop|extra|more)/.*|observability/ImageScan(Develop|Extra|More).*",
    ),
    "a base of one's own, with a login, and its own packages": Edit(
        (
            _set("image", base=OWN_BASE),
            _set("image", base=OWN_BASE, base_login={"secret": SECRET}),
            _set("image", base=OWN_BASE, base_login={"secret": SECRET_2, "key": KEY}),
            _set("image", base=OWN_BASE.replace("0" * 64, "1" * 64), base_login={"secret": SECRET_2, "key": KEY}),
            _set("image", base=OWN_BASE, base_packages="kept"),
        ),
        "image/.*",
    ),
    "a package index with a login": Edit(
        (
            _set("image", build={"pip_index": INDEX}),
            _set("image", build={"pip_index": INDEX, "pip_login": {"secret": SECRET}}),
            _set("image", build={"pip_index": f"{INDEX}/other", "pip_login": {"secret": SECRET_2, "key": KEY}}),
        ),
        "image/.*",
    ),
    "packages of other days": Edit(
        (_set("image", refresh=NEXT_DAY), _set("image", refresh=NEXT_DAY + timedelta(days=1))), "image/.*"
    ),
    "a proxy of builds": Edit(
        (
            _set("network", proxy={"https": PROXY}),
            _set("network", proxy={"https": PROXY, "no_proxy": [".example.com"]}),
            _set("network", proxy={"https": PROXY.replace("3128", "8080"), "http": PROXY}),
        ),
        "(image|mirror|cluster)/.*",
    ),
    "an image that is signed, and no more": Edit(
        (_set("image", sign=True), _set("image", sign=False)), "image/SigningProfile"
    ),
    # storage
    "a link": Edit(
        (
            _set("storage", "lustre", import_from=["s3://mine/a/"]),
            _set("storage", "lustre", import_from=["s3://mine/b/"]),
        ),
        "file-system/LustreImport.*",
    ),
    "no mirror": Edit(
        (_set("storage", "lustre", mirror=False),),
        "file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
    ),
    "other throughput": Edit(
        (_set("storage", "lustre", throughput_mbps_per_tib=500),), refused="storage.lustre would be replaced"
    ),
    "efa of the file system": Edit((_set("storage", "lustre", efa=True),), refused="storage.lustre.efa"),
    "a key of the bucket": Edit((_set("storage", bucket={"key": KEY}), _set("storage", bucket={"key": KEY_2}))),
    "a key of the file system": Edit(
        (_set("storage", "lustre", key=KEY), _set("storage", "lustre", key=KEY_2)), refused="storage.lustre.key"
    ),
    "a file system in the place of the one in use": Edit(
        (_set("storage", "lustre", generation=2),), refused="storage.former_lustre"
    ),
    "a former file system that never was": Edit(
        (_set("storage", former_lustre={"generation": 2, "capacity_tib": 4.8}),),
        refused="no file system of generation 2",
    ),
    "no file system at once": Edit(
        (_set("storage", lustre=None),), refused="write its section as `storage.former_lustre`", on=("eks",)
    ),
    "no file system on HyperPod": Edit(
        (_set("storage", lustre=None),), refused="requires a file system", on=("hyperpod-eks", "hyperpod-slurm")
    ),
    "dynamic volumes": Edit((_set("storage", "lustre", dynamic_volumes=True),), "cluster/.*", on=KUBERNETES),
    "root squash": Edit((_set("storage", "lustre", root_squash={}),), "file-system/.*"),
    "home directories": Edit(
        (_set("storage", home={}),), "file-system/Home.*", back_loses=("storage.home",), on=("hyperpod-slurm",)
    ),
    "a key of the volumes": Edit(
        (_set("hyperpod", volume_key=KEY), _set("hyperpod", volume_key=KEY_2)), on=("hyperpod-eks", "hyperpod-slurm")
    ),
    # people and jobs
    "a team of Slurm users": Edit(
        (
            _set(slurm=SLURM_USERS, teams=[{"name": "red", "users": ["ana"]}]),
            _set(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
        ),
        on=("hyperpod-slurm",),
    ),
    "a team fewer, one that does not borrow, another one, and none": Edit(
        (
            _set(teams=[{"name": "red"}]),
            _set(teams=[{"name": "red", "borrow": False}]),
            _set(teams=[{"name": "blue"}]),
            _set(teams=[]),
        ),
        "cluster/.*|registry/.*",
        on=("eks",),
    ),
    "a team": Edit(
        (_set(teams=[{"name": "red"}]), _set(teams=[{"name": "red", "borrow": False}]), _set(teams=[{"name": "blue"}])),
        "cluster/.*|registry/.*",
        on=("hyperpod-eks",),
    ),
    "prefixes of teams": Edit(
        (
            _set(teams=[{"name": "red"}]),
            _team_prefixes(),
            _team_prefixes(shared=["corpus/web"], data=["checkpoints/llama"]),
            _team_prefixes(shared=["corpus/code"], data=["checkpoints/other"]),
            _team_prefixes(),
            _set(teams=[{"name": "red"}]),
        ),
        "cluster/.*|registry/.*",
        on=KUBERNETES,
    ),
    "prefixes of teams on Slurm, of which one gets another name": Edit(
        (
            _slurm_prefixes("red"),
            _slurm_prefixes("red", "blue"),
            _slurm_prefixes("green", "blue"),
            _set(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
        ),
        "cluster/SlurmJobRoleOf(Red|Blue|Green)[A-Z0-9].*",
        on=("hyperpod-slurm",),
    ),
    "directories of teams": Edit(
        (_team_directories(False), _team_directories(True), _team_directories(False)),
        "(cluster|registry)/.*|file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
        on=KUBERNETES,
    ),
    "walls around jobs": Edit((_set(slurm={"job_walls": True}),), on=("hyperpod-slurm",)),
    "a shared /tmp": Edit((_set(slurm={"private_tmp": False}),), on=("hyperpod-slurm",)),
    "a viewer": Edit((_set("kubernetes", viewers=[ROLE]),), "cluster/.*", on=KUBERNETES),
    "training jobs": Edit((_set("iam", training_jobs=True),), "cluster/TrainingJob.*"),
    "roles of people": Edit((_set("iam", persona_roles=True),), PEOPLE, on=KUBERNETES),
    "secrets of jobs: one, another with a key, and none": Edit(
        (_set(secrets=[{"secret": SECRET}]), _set(secrets=[{"secret": SECRET}, {"secret": SECRET_2, "key": KEY}]))
    ),
    "the endpoint of the API": Edit(
        (
            _set("kubernetes", endpoint={"public_to": ["203.0.113.0/24"]}),
            _set("kubernetes", endpoint={"public_to": ["198.51.100.0/24"]}),
        ),
        "cluster/.*",
        on=KUBERNETES,
    ),
    # what the cluster runs
    "operators of jobs, one after the other": Edit(
        (
            _set("kubernetes", mpi_operator=True, ray_operator=True, pytorch_operator=True),
            _set("kubernetes", mpi_operator=True),
            _set("kubernetes", ray_operator=True),
        ),
        REPOSITORIES,
        on=KUBERNETES,
    ),
    "no chart of the trainer": Edit((_set("kubernetes", trainer=False),), REPOSITORIES, on=KUBERNETES),
    "devices by claims": Edit(
        # The Cluster Autoscaler knows no claims, and goes. Neither does Kueue, which places the jobs of teams.
        (_both(_set(teams=[]), _set("kubernetes", gpu_devices="dra")),),
        REPOSITORIES + "|cluster/ClusterAutoscaler.*",
        on=("eks",),
    ),
    "Run:ai's cluster: installed, of another control plane, and taken over by its owners": Edit(
        (
            _run_ai(control_plane="https://acme.run.ai", secret="run-ai"),
            _run_ai(control_plane="https://run-ai.example.com", secret=SECRET, key=KEY),
            _teams_with("run-ai"),
        ),
        "cluster/.*|registry/.*|mirror/.*",
        on=("eks",),
    ),
    "Run:ai": Edit(
        (_teams_with("run-ai"), _teams_with("kueue")),
        "cluster/.*|registry/.*",
        on=("eks",),
    ),
    "an add-on": Edit((_set("hyperpod", training_operator=True),), "cluster/.*", on=("hyperpod-eks",)),
    "SageMaker Spaces": Edit((_set("hyperpod", spaces=True),), "cluster/.*", on=("hyperpod-eks",)),
    "another add-on": Edit((_set("hyperpod", observability=True),), "cluster/.*", on=("hyperpod-eks",)),
    "collected metrics": Edit(
        (_set("kubernetes", observability=True), _set("kubernetes", observability=True, queues="none")),
        "cluster/.*|registry/.*|control-plane/ControlPlane(PrometheusNodeExporter|KubeStateMetrics).*",
        on=("eks",),
    ),
    "metrics that the controller collects": Edit(
        (_set("slurm", observability=True), _set("slurm", observability=True, health_checks=False)),
        "cluster/.*",
        on=("hyperpod-slurm",),
    ),
    "the next version": Edit((_set("kubernetes", version="1.35"),), stays="older version", on=("eks",)),
    "more system nodes": Edit((_set("kubernetes", system_nodes={"count": 3}),), on=KUBERNETES),
    "emails of high findings, too": Edit((_set("image", scan={"severity": "high"}),)),
    "messages to URLs and to Slack": Edit(
        (
            _set("observability", urls=["https://a.example.com/told"], slack={"workspace": "T01", "channel": "C01"}),
            _set("observability", urls=["https://b.example.com/told"], slack={"workspace": "T02", "channel": "C01"}),
            _set("observability", urls=[], slack=None),
        ),
        "observability/Alerts.*",
    ),
    "no emails of findings": Edit((_set("image", scan={"severity": None}),), "observability/ImageScan.*"),
    # the network
    "a closed network": Edit(
        (_set(network="closed"),), "(network|registry|cluster|image|mirror|file-system|control-plane)/.*"
    ),
    "another range": Edit((_set("network", cidr="10.1.0.0/16"),), refused="the range of a VPC cannot change"),
    "a third zone": Edit(
        (_set(zones=["usw2-az2", "usw2-az1", "usw2-az3"]),), refused="can have no other zones", on=KUBERNETES
    ),
    "one zone": Edit((_set(zones=["usw2-az2"]),), refused="keep usw2-az1 in the list"),
}
