"""The edits of a live platform's file: what the diff says of each, what it may move, and why some are refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.synthesis import ROOT
from trainway.spec.loader import load_versions

Document = dict[str, Any]
Change = Callable[[Document], None]
Lines = tuple[str, ...]
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
KUBERNETES, HYPERPOD = ("eks", "hyperpod-eks"), ("hyperpod-eks", "hyperpod-slurm")
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
KEY_2 = KEY.replace("1234abcd", "5678abcd")
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:first-AbCdEf"
SECRET_2 = SECRET.replace("first", "second")
OWN_BASE = f"nvcr.io/nvidia/pytorch:26.10-py3@sha256:{'0' * 64}"
OWN_IMAGE = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{'0' * 64}"
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
    `refused` is a part of the reason if the steps are refused for good. `stays` is one if the way back is. An edit that
    is `told_only` is not deployed, because the emulator has no such update.

    `trainway diff` tells the first step. `says` are lines of its text, and `says_on` further ones by the orchestrator.
    `loses` are the names that it refuses to lose until they are allowed, with their keys in the file, and `back_loses`
    those names of the way back. `gone` are the names of everything that the platform has a word for and that is
    replaced or deleted.
    """

    steps: tuple[Change, ...]
    moves: str = ""
    loses: Mapping[str, str] = field(default_factory=dict)
    back_loses: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    says: Lines = ()
    says_on: Mapping[str, Lines] = field(default_factory=dict)
    refused: str | None = None
    stays: str | None = None
    told_only: bool = False
    on: tuple[str, ...] = ORCHESTRATORS

    def documents(self, name: str, orchestrator: str) -> list[Document]:
        """Return the file after each step, every one made from the base."""
        found = []
        for step in self.steps:
            document = base(name, orchestrator)
            step(document)
            found.append(document)
        return found

    def lines(self, orchestrator: str) -> Lines:
        return self.says + self.says_on.get(orchestrator, ())

    def gone_on(self, orchestrator: str) -> set[str]:
        """Return `gone` on an orchestrator. Node groups of HyperPod have no launch templates."""
        return {each for each in self.gone if orchestrator == "eks" or not each.endswith("Template")}


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


def _removed(*lines: str, **costs: str) -> dict[str, Any]:
    """Return the expectations of an edit that removes node groups, each with what the loss of its nodes costs.

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
    return Edit((_set("kubernetes", **keys),), REPOSITORIES, says=says, on=("eks",))


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

# What the diff says.
NO_NODES_ELSEWHERE = "no changes: live-network, live-storage, live-registry, live-control-plane, live-file-system, "
ONLY_THE_CLUSTER = f"{NO_NODES_ELSEWHERE}live-image, live-mirror, live-observability"
# The runbook of events finds each team's runs.
ONLY_ACCESS = (
    "live-observability\n  changed in place  1 × SSM::Document",
    f"{NO_NODES_ELSEWHERE}live-image, live-mirror",
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
    "15 changed in place, 5 created. The deploy takes about 15 min or more.",
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
    "nothing": Edit((_set(),), says=("Nothing changes.",)),
    # node groups
    "remove the first group": Edit((_groups(BB, CC, DD),), _of("aa"), **_removed(aa=TWO_STOP)),
    "remove the middle group": Edit((_groups(AA, CC, DD),), _of("bb"), **_removed(bb=ONE_STOPS)),
    "remove the last group": Edit((_groups(AA, BB, CC),), _of("dd"), **_removed(dd=ONE_STOPS)),
    "remove two groups": Edit((_groups(BB, CC),), _of("aa", "dd"), **_removed(aa=TWO_STOP, dd=ONE_STOPS)),
    "remove an empty group": Edit(
        (_groups(AA, BB, DD),),
        _of("cc"),
        gone=("cc", "nodes-cc", "CcTemplate"),
        says=("  deleted           subnet nodes-cc", "  deleted           node group cc"),
    ),
    "add a first group": Edit((_groups(EE, AA, BB, CC, DD),), _of("ee"), back_loses=("ee",), says=ADDED),
    "add a middle group": Edit((_groups(AA, EE, BB, CC, DD),), _of("ee"), back_loses=("ee",), says=ADDED),
    "add a last group": Edit((_groups(AA, BB, CC, DD, EE),), _of("ee"), back_loses=("ee",), says=ADDED),
    "add a group in the other zone": Edit(
        (_groups(AA, BB, CC, DD, group("ee", zone="usw2-az1")),), _of("ee"), back_loses=("ee",), says=ADDED
    ),
    "add a group larger than a share": Edit(
        (_groups(group("ee", max_count=90), AA, BB, CC, DD),),
        "cluster/NetworkCidr.*|" + _of("ee"),
        back_loses=("ee",),
        says=ADDED,
    ),
    REMOVED_AND_ADDED: Edit(
        (_groups(AA, EE, CC, DD),),
        _of("bb", "ee"),
        **_removed(*ADDED, bb=ONE_STOPS),
        back_loses=("ee",),
    ),
    "rename the first group": Edit(
        (_groups(AA | {"name": "zz"}, BB, CC, DD),),
        _of("aa", "zz"),
        **_removed("  created           node group zz", aa=TWO_STOP),
        back_loses=("zz",),
    ),
    "rename the last group": Edit(
        (_groups(AA, BB, CC, group("zz")),),
        _of("dd", "zz"),
        **_removed("  created           node group zz", dd=ONE_STOPS),
        back_loses=("zz",),
    ),
    "swap two groups": Edit((_groups(BB, AA, CC, DD),), says_on={"eks": (ONLY_THE_CLUSTER,)}),
    "reverse the groups": Edit((_groups(DD, CC, BB, AA),), says_on={"eks": (ONLY_THE_CLUSTER,)}),
    "more nodes": Edit(
        (_groups(AA | {"count": 3}, BB, CC, DD),),
        says=("                    cost: 1 node more",),
        says_on={
            "eks": ("  changed in place  node group aa", ONLY_THE_CLUSTER),
            "hyperpod-eks": ("                    InstanceCount: 2 → 3",),
        },
    ),
    "fewer nodes": Edit(
        (_groups(AA | {"count": 1, "max_count": 2}, BB, CC, DD),),
        says=(
            "                    ScalingConfig.DesiredSize: 2 → 1",
            "                    cost: from 2 running nodes to 1: 1 node stops, and the jobs on it",
        ),
        on=("eks",),
    ),
    "a larger group": Edit((_groups(AA, group("bb", max_count=16), CC, DD),)),
    "a smaller group": Edit((_groups(AA, group("bb", max_count=2), CC, DD),)),
    "a group that outgrows its subnet": Edit(
        (_groups(AA, group("bb", max_count=5000), CC, DD),), refused="a subnet cannot grow"
    ),
    "another type of a group": Edit(
        (_groups(AA | {"instance_type": LARGER}, BB, CC, DD),),
        _of("aa"),
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
        (_groups(AA, BB, CC | {"instance_type": LARGER}, DD),),
        _of("cc"),
        gone=("cc",),
        says=("  replaced          node group cc", ONLY_THE_CLUSTER),
        on=("eks",),
    ),
    "spot instead of on demand": Edit(
        (_groups(AA, group("bb", capacity="spot"), CC, DD),),
        "observability/EventsSpotInterrupted.*|" + _of("bb"),
        {"bb": "node_groups[1].capacity"},
        ("bb",),
        gone=("bb",),
        says=('                    CapacityType: "ON_DEMAND" → "SPOT"',),
        on=("eks",),
    ),
    "another zone of a group": Edit(
        (_groups(AA, group("bb", zone="usw2-az1"), CC, DD),), refused="a subnet cannot change its zone"
    ),
    "another order of the zones": Edit((_set(zones=["usw2-az1", "usw2-az2"]),), refused="cannot change its zone"),
    "another zone and name of a group": Edit(
        (_groups(AA, group("zz", zone="usw2-az1"), CC, DD),),
        _of("bb", "zz"),
        **_removed(bb=ONE_STOPS),
        back_loses=("zz",),
    ),
    # the image
    "packages, a Dockerfile, and an image of one's own": Edit(
        (
            _set("image", packages={"apt": ["libaio-dev"]}),
            _set("image", packages={"apt": ["libaio-dev", "numactl"]}),
            _set("image", packages={"apt": ["libaio-dev"]}, dockerfile=str(ROOT / "examples/your-image")),
            _set("image", uri=OWN_IMAGE),
        ),
        "image/.*",
        says_on={"eks": A_LAYER_MORE},
    ),
    "a Dockerfile": Edit(
        (_set("image", dockerfile=str(ROOT / "examples/your-image")),), "image/.*", says=A_LAYER_MORE, on=("eks",)
    ),
    "an image of one's own": Edit(
        (_set("image", uri=OWN_IMAGE),),
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
        (_set(images=DEVELOP),),
        FURTHER,
        says=(
            f"live-image-develop: a new stack\n{ADDS}",
            "live-cluster\n  changed in place  2 × SSM::Parameter",
            "4 changed in place, 31 created. The deploy takes about 15 min or more.",
        ),
        on=("eks",),
    ),
    "a further image of a group": Edit(
        (_set(images=DEVELOP, node_groups=[AA | {"image": "develop"}, BB, CC, DD]),),
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
            _set(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["libaio-dev"]}}}),
            _set(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["numactl"]}}}),
            _set(images={"develop": {"base": "devel"}, "more": {"packages": {"apt": ["numactl"]}}}),
            _set(images={"develop": {"base": "devel"}}, node_groups=[AA, group("bb", image="develop"), CC, DD]),
        ),
        FURTHER,
    ),
    "a base of one's own, with a login, and its own packages": Edit(
        (
            _set("image", base=OWN_BASE, base_login={"secret": SECRET}),
            _set("image", base=OWN_BASE),
            _set("image", base=OWN_BASE, base_login={"secret": SECRET_2, "key": KEY}),
            _set("image", base=OWN_BASE.replace("0" * 64, "1" * 64), base_login={"secret": SECRET_2, "key": KEY}),
            _set("image", base=OWN_BASE, base_packages="kept"),
        ),
        "image/.*",
        says_on={"eks": (*ANOTHER_BASE, "14 changed in place. The deploy takes about 30 min or more.")},
    ),
    "a package index with a login": Edit(
        (
            _set("image", build={"pip_index": INDEX, "pip_login": {"secret": SECRET}}),
            _set("image", build={"pip_index": INDEX}),
            _set("image", build={"pip_index": f"{INDEX}/other", "pip_login": {"secret": SECRET_2, "key": KEY}}),
        ),
        "image/.*",
        says_on={"eks": (*THE_SAME_IMAGE, FIVE_MINUTES)},
    ),
    "packages of other days": Edit(
        (_set("image", refresh=NEXT_DAY), _set("image", refresh=NEXT_DAY + timedelta(days=1))),
        "image/.*",
        says_on={"eks": (*ANOTHER_BASE, "13 changed in place. The deploy takes about 30 min or more.")},
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
        (_set("image", sign=True), _set("image", sign=False)),
        "image/SigningProfile",
        says_on={"eks": (*THE_SAME_IMAGE, "  created           1 × Signer::SigningProfile")},
    ),
    "copies of the image": Edit(
        (_set("image", replicate={"regions": ["us-east-1"]}),),
        "image/.*",
        says=(*THE_SAME_IMAGE, FIVE_MINUTES),
        on=("eks",),
    ),
    # storage
    "a link": Edit(
        (
            _set("storage", "lustre", import_from=["s3://corpus/web/"]),
            _set("storage", "lustre", import_from=["s3://mine/b/"]),
        ),
        "file-system/LustreImport.*",
        says=("  created           link to S3 LustreImportCorpusWebRepository",),
    ),
    "no mirror": Edit(
        (_set("storage", "lustre", mirror=False),),
        "file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
        gone=LINKS,
    ),
    "other throughput": Edit((_set("storage", "lustre", throughput_mbps_per_tib=500),), **THROUGHPUT),
    "two edits, one refused": Edit(
        (
            _both(
                _groups(AA | {"count": 3}, BB, CC, DD),
                _set("storage", "lustre", throughput_mbps_per_tib=500),
            ),
        ),
        **THROUGHPUT,
        on=("eks",),
    ),
    "more capacity": Edit(
        (_set("storage", "lustre", capacity_tib=9.6),),
        says=("  changed in place  file system storage.lustre", "                    StorageCapacity: 4800 → 9600"),
        told_only=True,
        on=("eks",),
    ),
    "another compression": Edit(
        (_set("storage", "lustre", compression=False),),
        says=('                    LustreConfiguration.DataCompressionType: "LZ4" → "NONE"',),
        told_only=True,
        on=("eks",),
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
    "no file system on HyperPod": Edit((_set("storage", lustre=None),), refused="requires a file system", on=HYPERPOD),
    "dynamic volumes": Edit((_set("storage", "lustre", dynamic_volumes=True),), "cluster/.*", on=KUBERNETES),
    "root squash": Edit((_set("storage", "lustre", root_squash={}),), "file-system/.*"),
    "home directories": Edit(
        (_set("storage", home={}),),
        "file-system/Home.*",
        back_loses=("storage.home",),
        says=("  created           file system storage.home",),
        on=("hyperpod-slurm",),
    ),
    "a key of the volumes": Edit((_set("hyperpod", volume_key=KEY), _set("hyperpod", volume_key=KEY_2)), on=HYPERPOD),
    # people and jobs
    "a team of Slurm users": Edit(
        (
            _set(slurm=SLURM_USERS, teams=[{"name": "red", "users": ["ana"]}]),
            _set(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
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
            _set(teams=[{"name": "red"}]),
            _set(teams=[{"name": "red", "borrow": False}]),
            _set(teams=[{"name": "blue"}]),
            _set(teams=[]),
        ),
        "cluster/.*|registry/.*",
        says=ONLY_ACCESS,
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
        gone=LINKS,
        on=KUBERNETES,
    ),
    "walls around jobs": Edit((_set(slurm={"job_walls": True}),), on=("hyperpod-slurm",)),
    "a shared /tmp": Edit((_set(slurm={"private_tmp": False}),), on=("hyperpod-slurm",)),
    "a viewer": Edit((_set("kubernetes", viewers=[ROLE]),), "cluster/.*", on=KUBERNETES),
    # The image is built again too: with layers that SageMaker reads.
    "training jobs": Edit(
        (_set("iam", training_jobs=True),),
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
        (_set("iam", persona_roles=True),), PEOPLE, gone=("KubernetesPrincipalb74ee6ad",), on=KUBERNETES
    ),
    "secrets of jobs: one, another with a key, and none": Edit(
        (_set(secrets=[{"secret": SECRET}]), _set(secrets=[{"secret": SECRET}, {"secret": SECRET_2, "key": KEY}])),
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
    "KubeRay": _operator(ray_operator=True),
    "the MPI operator": _operator(mpi_operator=True),
    "the training operator": _operator(pytorch_operator=True),
    "no chart of the trainer": Edit(
        (_set("kubernetes", trainer=False),),
        REPOSITORIES,
        gone=("TrainerControllerManager", "Jobset", "ChartsKubeflowTrainer"),
        on=KUBERNETES,
    ),
    "devices by claims": Edit(
        # The Cluster Autoscaler knows no claims, and goes. Neither does Kueue, which places the jobs of teams.
        (_both(_set(teams=[]), _set("kubernetes", gpu_devices="dra")),),
        REPOSITORIES + "|cluster/(ClusterAutoscaler|KubernetesJobIn(Red|Blue|Training)).*",
        gone=(
            *KUEUE_AND_PLUGIN,
            *("ChartsAwsEfaK8sDevicePlugin", "AwsEfaK8sDevicePlugin", "ChartsClusterAutoscaler", "ClusterAutoscaler"),
        ),
        on=("eks",),
    ),
    "Run:ai's cluster: installed, of another control plane, and taken over by its owners": Edit(
        (
            _run_ai(control_plane="https://acme.run.ai", secret="run-ai"),
            _run_ai(control_plane="https://run-ai.example.com", secret=SECRET, key=KEY),
            _teams_with("run-ai"),
        ),
        "cluster/.*|registry/.*|mirror/.*",
        gone=KUEUE_AND_PLUGIN,
        on=("eks",),
    ),
    "Run:ai": Edit(
        (_teams_with("run-ai"), _teams_with("kueue")),
        "cluster/.*|registry/.*",
        gone=KUEUE_AND_PLUGIN,
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
    "emails of alarms": Edit(
        (_set("observability", notify="me@example.com"),),
        "observability/.*",
        says=("  created           1 × SNS::Subscription",),
        on=("eks",),
    ),
    "no emails of findings": Edit((_set("image", scan={"severity": None}),), "observability/ImageScan.*"),
    # the network
    "a closed network": Edit(
        (_set(network="closed"),),
        "(network|registry|cluster|image|mirror|file-system|control-plane)/.*",
        gone=("public-0", "public-1"),
    ),
    "another range": Edit((_set("network", cidr="10.1.0.0/16"),), refused="the range of a VPC cannot change"),
    "a third zone": Edit(
        (_set(zones=["usw2-az2", "usw2-az1", "usw2-az3"]),), refused="can have no other zones", on=KUBERNETES
    ),
    "one zone": Edit((_set(zones=["usw2-az2"]),), refused="keep usw2-az1 in the list"),
}
