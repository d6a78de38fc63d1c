"""From the stock Slurm example to its first job, with nothing changed by hand: check, deploy, provision, launch, train.

The deploy is the real CDK's on the emulated AWS. The scripts' stage runs with the environment that this deploy gave its
CodeBuild project, and what it delivers provisions nodes with a real Slurm. Stand-ins, because no network is here: the
sources of enroot and pyxis, which the stage and the nodes compile; ECR; and the GPUs and EFA devices of the nodes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from emulator import Emulator, running
from tests.delivery.test_node_packages import repository
from tests.lifecycle_scripts.nodes import DOWNLOADED, STAND_INS, Lab, Node, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.lifecycle_scripts.test_service_cluster import ENTRY
from tests.synthesis import EXAMPLES, ROOT
from tests.test_deploy import cdk
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform

WHY_NOT = missing()
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
]

(EXAMPLE,) = (file for file in EXAMPLES if file.stem == "hyperpod-slurm-p5en")
GROUPS = {"controller": ["ctl"], "login": ["login"], "train": ["n1", "n2"]}
TYPES = {"controller": "ml.m7i.2xlarge", "login": "ml.m7i.xlarge", "train": "ml.p5en.48xlarge"}
# slurm.conf as the service writes it, as far as it is documented. Slurm is told to believe that nodes have 192 CPUs.
HYPERPODS_OWN = """\
ClusterName=hyperpod
SlurmctldHost={controller}
SlurmUser=slurm
SlurmctldParameters=enable_configless
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
GresTypes=gpu
NodeName={nodes} CPUs={cpus} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# The bucket of the stage is the lab's; apt has packages that hold nothing.
AWS = """#!/usr/bin/env bash
set -euo pipefail
place=$BUCKETS/${4#s3://}
mkdir -p "$(dirname "$place")"
case "$1 $2" in
  "s3 sync") rm -rf "$place" && cp -R "$3" "$place" ;;
  "s3 cp") cp "$3" "$place" ;;
  *) exit 252 ;;
esac
"""
APT = """#!/usr/bin/env bash
set -euo pipefail
case " $* " in
  *" --simulate "*" ubuntu-minimal "*) echo "Inst bash" ;;
  *" --simulate "*) printf 'Inst %s\\n' bash $DEPENDENCIES ;;
  *" download "*) cp "$PACKAGES"/*.deb . ;;
esac
"""


def trainway(*arguments: str, emulator: Emulator | None = None) -> str:
    """What a command of `trainway` prints."""
    environment = emulator.child_environment() if emulator else {**os.environ}
    command = [sys.executable, "-m", "trainway.cli", *arguments]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Emulator, Path]]:
    """The example on the emulated AWS, and the source of the pipeline that has the scripts' stage."""
    directory, region = tmp_path_factory.mktemp("deploy"), load_platform(EXAMPLE).region
    with running(region=region) as emulator:
        cdk(emulator, "bootstrap", f"aws://123456789012/{region}", "--output", str(directory / "bootstrap"))
        app = ["--context", f"platform={EXAMPLE}", "--output", str(directory / "assembly")]
        cdk(emulator, "deploy", "--all", "--require-approval=never", "--progress=events", "--concurrency=4", *app)
        source, *_ = (
            found.parents[1] for found in directory.glob("assembly/**/manifests/slurm-accounts.json") if found.is_file()
        )
        yield emulator, source


def stage_environment(emulator: Emulator) -> dict[str, str]:
    """The environment that the deploy gave the scripts' stage."""
    client = boto3.client(
        "codebuild",
        endpoint_url=emulator.endpoint,
        region_name=load_platform(EXAMPLE).region,
        aws_access_key_id="emulator",
        aws_secret_access_key="emulator",
    )
    projects = client.batch_get_projects(names=client.list_projects()["projects"])["projects"]
    variables = [project["environment"]["environmentVariables"] for project in projects]
    (found,) = (each for each in variables if "LIFECYCLE_S3_URI" in {variable["name"] for variable in each})
    return {variable["name"]: variable["value"] for variable in found if variable["name"] != "WAIT_HANDLE_URL"}


def deliver(source: Path, environment: dict[str, str], buckets: Path, directory: Path) -> None:
    """Runs the scripts' stage. Its list of packages names the stand-ins, for the release of the tests' nodes."""
    tree = shutil.copytree(source, directory / "source")
    listed = tree / "delivery" / "node_packages.yaml"
    document = yaml.safe_load(listed.read_text())
    for package in document["sources"]:
        files = {file.name: file.read_text() for file in (STAND_INS / package["name"]).iterdir()}
        package["git"], package["commit"] = repository(directory / package["name"], files)
        package.pop("submodules", None), package.pop("nar_sha256", None)
    document["ubuntu"] |= {"releases": ["bookworm"], "keyring": str(listed)}
    listed.write_text(yaml.safe_dump(document))
    packages = document["ubuntu"]["packages"]
    (directory / "empty").mkdir()
    for name in packages:
        control = directory / "empty" / name / "DEBIAN" / "control"
        control.parent.mkdir(parents=True)
        control.write_text(f"Package: {name}\nVersion: 9\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n")
        subprocess.run(["dpkg-deb", "--build", control.parents[1], f"{control.parents[1]}.deb"], check=True)
    for name, text in (("aws", AWS), ("apt-get", APT)):
        command = directory / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(text)
        command.chmod(0o755)
    there = {
        "PATH": f"{directory / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BUCKETS": str(buckets),
        "PACKAGES": str(directory / "empty"),
        "DEPENDENCIES": " ".join(packages),
    }
    stage = ["bash", str(tree / "delivery" / "stage.sh"), "scripts"]
    ran = subprocess.run(stage, env=environment | there, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def furnish(node: Node) -> None:
    """The devices of a P5en node, as far as the node's checks look at them."""
    instance = load_catalogue()["p5en.48xlarge"]
    assert instance.accelerator
    node.run(
        "bash",
        "-ec",
        f"""
for number in {{0..{instance.accelerator.count - 1}}}; do mknod /dev/nvidia$number c 195 $number; done
mkdir -p /run/class /run/drivers/efa
cp -a /sys/class/. /run/class/ 2>/run/not-copied || true
for number in {{1..{instance.efa_interfaces}}}; do
  mkdir -p /run/class/infiniband/rdmap$number/device
  ln -s /run/drivers/efa /run/class/infiniband/rdmap$number/device/driver
done
mount --bind /run/class /sys/class
""",
    )


def hyperpod_starts_slurm(lab: Lab) -> None:
    """What the service has done when it runs OnInitComplete: munge, accounting, Slurm, and the file system."""
    controller, compute = lab["ctl"], [lab[name] for name in GROUPS["train"]]
    key, instance = os.urandom(128), load_catalogue()["p5en.48xlarge"]
    assert instance.accelerator
    lustre = json.loads((controller.root / f"{DOWNLOADED}/parameters.json".lstrip("/")).read_text())["fsx"]
    for node in lab.nodes.values():
        (node.root / "etc/munge/munge.key").write_bytes(key)
        node.run("bash", "-c", "cd /etc/munge; chown munge: munge.key; chmod 400 munge.key; systemctl start munge")
        node.run("mkdir", "-p", lustre["mount_path"])
        node.run("mount", "-t", "lustre", f"{lustre['dns_name']}@tcp:/{lustre['mount_name']}", lustre["mount_path"])
    configuration = HYPERPODS_OWN.format(
        controller=controller.hostname,
        address=controller.address,
        nodes=",".join(node.hostname for node in compute),
        cpus=instance.vcpus,
        gpus=instance.accelerator.count,
    )
    controller.write("/opt/slurm/etc/slurm.conf", configuration)
    controller.write("/opt/slurm/etc/gres.conf", f"Name=gpu File=/dev/nvidia[0-{instance.accelerator.count - 1}]\n")
    controller.run("install", "-d", "-o", "slurm", "/var/spool/slurmctld", "/var/log/slurm")
    keys = ("ENDPOINT", "PORT", "NAME", "SECRET", "USER")
    database: dict[str, Any] = {f"SLURM_ACCOUNTING_DATABASE_{key}": "" for key in keys}
    database["CONTROLLER_ADDRESSES"] = controller.address
    controller.run("bash", f"{DOWNLOADED}/slurm/accounting.sh", **database)
    controller.run("systemctl", "enable", "--now", "--quiet", "slurmctld")
    wait_for("slurmctld answers", lambda: controller.run("scontrol", "ping", check=False).returncode == 0)
    for node in (lab["login"], *compute):
        node.write("/etc/default/slurmd", f"SLURMD_OPTIONS='--conf-server {controller.address}'\n")
        # The commands of a login node have their configuration from a slurmd, too.
        node.run("systemctl", "enable", "--now", "--quiet", "slurmd", check=node in compute)


@pytest.fixture(scope="module")
def cluster(deployed: tuple[Emulator, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Nodes that have run what the example's deploy delivered, and nothing else."""
    emulator, source = deployed
    environment = stage_environment(emulator)
    with nodes(tmp_path_factory.mktemp("cluster"), GROUPS, types=TYPES) as lab:
        deliver(source, environment, lab.s3, tmp_path_factory.mktemp("stage"))
        for node in lab.nodes.values():
            place = node.root / DOWNLOADED.lstrip("/")
            shutil.rmtree(place)
            shutil.copytree(lab.s3 / environment["LIFECYCLE_S3_URI"].removeprefix("s3://"), place)
        for name in GROUPS["train"]:
            furnish(lab[name])
        hyperpod_starts_slurm(lab)
        for name, done in lab.provision(entry=ENTRY, timeout=1800).items():
            assert done.returncode == 0, f"{name}: {done.stdout[-4000:]}"
            assert "WARNING: jobs in an image" not in done.stdout, name
        yield lab


def test_the_example_is_valid() -> None:
    trainway("check", str(EXAMPLE))


@pytest.mark.exhaustive
def test_every_node_has_enroot_and_pyxis_and_takes_jobs(cluster: Lab) -> None:
    for node in cluster.nodes.values():
        assert node.run("enroot", "version").stdout == "4.1.2\n"
        capabilities = node.run("getcap", "/usr/bin/enroot-mksquashovlfs", "/usr/bin/enroot-aufs2ovlfs").stdout
        assert "cap_sys_admin" in capabilities and "cap_mknod" in capabilities
    assert "--container-image" in cluster["n1"].run("srun", "--help").stdout
    ask = ("sinfo", "--noheader", "--Node", "--format=%T %G")
    wait_for("the nodes are idle", lambda: cluster["ctl"].run(*ask).stdout == "idle gpu:8\n" * 2)


@pytest.mark.exhaustive
def test_the_first_job_trains_in_the_image(cluster: Lab, deployed: tuple[Emulator, Path], tmp_path: Path) -> None:
    """Launch the bundled job, with fewer steps and less text, as a user of a team from the hand-off of the deploy.

    The nodes have files in the place of GPUs, so the job ends at its start until it says that it means the CPU.
    """
    job = yaml.safe_load((ROOT / "examples/jobs/tiny.yaml").read_text())
    # No S3 is here, and the file system is.
    team = load_platform(EXAMPLE).teams[0]
    checkpoint = {"every": 3, "keep": 1, "location": f"fsx:/checkpoints/{team.name}/first"}
    job["data"]["train"] = f"fsx:/corpus/{team.name}/python-stdlib"
    job |= {"team": team.name, "steps": 6, "checkpoint": checkpoint, "schedule": {"warmup_steps": 2}}
    corpus = cluster.shared / job["data"]["train"].removeprefix("fsx:/")
    prepare = ["--corpus", "python-stdlib", "--limit-bytes", "400000", "--vocabulary", "512", "--out", str(corpus)]
    subprocess.run([sys.executable, "-m", "training.prepare", *prepare], check=True, cwd=ROOT)

    user = team.users[0]

    def submitted(name: str, **keys: str) -> tuple[Path, subprocess.CompletedProcess[str], str]:
        """Return the directory of a run, what sbatch said, and the output of the ranks."""
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(job | keys))
        options = [f"--platform={EXAMPLE}", "--target=slurm", f"--run={name}", "--dry-run", "--full"]
        script = trainway("launch", str(file), *options, emulator=deployed[0])
        push_image(script, cluster.s3)
        (cluster.shared / "script").write_text(script)
        run = cluster.shared / "runs" / team.name / name
        submit = f"mkdir -p /fsx/{run.relative_to(cluster.shared)}/logs && sbatch --parsable --wait /fsx/script"
        said = cluster["login"].run("runuser", f"--user={user}", "--", "bash", "-c", submit, timeout=300, check=False)
        assert (run / "logs" / "slurm.log").exists(), said.stdout + said.stderr
        files = sorted(run.glob("logs/start-0/*/*/attempt_0/*/std*.log"))
        return run, said, "".join(file.read_text() for file in files)

    _, said, log = submitted("silent")
    assert said.returncode and "p5en.48xlarge has 8 H200, but " in log
    run, said, log = submitted("first", device="cpu")
    losses = [float(loss) for loss in re.findall(r"step=\d+/6 .*?loss=([0-9.]+)", log)]
    assert said.returncode == 0 and len(losses) >= 6, log[-6000:]
    assert losses[-1] < losses[0]
    assert (run / "outcome").read_text() == "succeeded\n"
    events: list[dict[str, Any]] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "start" and events[-1]["event"] == "end" and events[-1]["step"] == 6
    # Eight ranks, one for each GPU, with Python and PyTorch of the image: the node itself has none.
    assert len(list(run.glob("logs/start-0/*/**/stderr.log"))) == 8
    assert cluster["n1"].run("bash", "-c", "command -v python", check=False).returncode
    assert list((cluster.shared / "images" / user).glob("*.sqsh"))


def push_image(script: str, registry: Path) -> None:
    """Puts the image that the script names into the stand-in of ECR: this machine's Python."""
    found = re.search(r"docker://AWS@([^#]+)#(\S+?:sha256:[0-9a-f]{64})", script)
    assert found, script
    image = registry / "registry" / found[1] / found[2]
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_text(f"PATH={Path(sys.prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin\n")


@pytest.mark.exhaustive
def test_nothing_is_asked_of_the_internet(cluster: Lab) -> None:
    assert cluster.asked_outside() == []
