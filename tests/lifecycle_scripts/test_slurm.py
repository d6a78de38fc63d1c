"""Slurm as the lifecycle scripts set it up on nodes: configuration, prolog, epilog, health check, who may log in."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.nodes import DOWNLOADED, RESOURCE_CONFIG, Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import keep_steps, run_step
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import slurm_accounts

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

# What a node of this machine can be taken for.
GPUS: dict[str, Any] = {"name": "gpu", "type": "h100", "count": 2, "device": "/dev/nvidia"}
PLAN: dict[str, Any] = {
    "instance_types": {"ml.p5.48xlarge": {"cpus": 2, "memory_mib": 4096, "gres": GPUS, "efa": 0}},
    "health_checks": True,
    "login_needs_job": True,
    "job_walls": True,
    "settings": {"SlurmdTimeout": "10", "MessageTimeout": "5"},
}
OWN_STEPS = ("20-lustre", "30-slurm", "32-login", "34-job-walls", "40-accounts")
TEAMS = {"s3_uri": "s3://data/lifecycle_scripts/slurm-accounts.json", "region": "us-west-2"}


def has_gpus(node: Node) -> None:
    """Device files of the major number that NVIDIA's driver has, behind which there is nothing."""
    for number in range(GPUS["count"]):
        node.run("sh", "-c", f"[ -e /dev/nvidia{number} ] || mknod -m 666 /dev/nvidia{number} c 195 {number}")


def wait_for(what: str, is_so: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.2)


def states(lab: Lab, controller: str = "ctl") -> dict[str, str]:
    """Each node's state, by its name in the lab."""
    listed = lab[controller].run("sinfo", "--noheader", "--Node", "--format=%N %T").stdout.split()
    names = {node.hostname: name for name, node in lab.nodes.items()}
    return {names[host]: state for host, state in zip(listed[::2], listed[1::2], strict=True)}


def reason(lab: Lab, name: str) -> str:
    return lab["ctl"].run("sinfo", "--noheader", f"--nodes={lab[name].hostname}", "--format=%E").stdout.strip()


def submit(lab: Lab, script: str, *options: str, user: str = "ubuntu", controller: str = "ctl") -> str:
    """The id of a user's job."""
    command = ["sbatch", "--parsable", f"--uid={user}", "--chdir=/", "--output=/fsx/%j.out", *options]
    return lab[controller].run(*command, f"--wrap={script}").stdout.strip()


def state(lab: Lab, job: str, controller: str = "ctl") -> str:
    shown = lab[controller].run("scontrol", "--oneliner", "show", "job", job, check=False).stdout
    return shown.partition("JobState=")[2].partition(" ")[0]


def ends(lab: Lab, job: str, controller: str = "ctl") -> str:
    """What a job has said, once it has ended well."""
    wait_for(f"job {job} ends", lambda: state(lab, job, controller) in ("COMPLETED", "FAILED"))
    said = (lab.shared / f"{job}.out").read_text()
    assert state(lab, job, controller) == "COMPLETED", said
    return said


def follow_teams(lab: Lab, *users: str) -> None:
    """Puts the document of a platform with one team, or with none, where controllers fetch it."""
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 2}
    keys = {"name": "atlas", "region": "us-west-2", "zones": ["usw2-az1"], "orchestrator": "hyperpod-slurm"}
    teams = [{"name": "research", "guarantee": {"p5.48xlarge": 2}, "users": users}] if users else []
    document = slurm_accounts(Platform.model_validate({**keys, "node_groups": [group], "teams": teams}))
    place = lab.s3 / TEAMS["s3_uri"].removeprefix("s3://")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(document))


def tell_places(lab: Lab) -> None:
    """Has HyperPod's description of the cluster tell where its compute nodes are: below two switches of one."""
    for node in lab.nodes.values():
        file = node.root / RESOURCE_CONFIG[1:]
        config = json.loads(file.read_text())
        for number, instance in enumerate(config["InstanceGroups"][1]["Instances"]):
            names = ("nn-top", "nn-middle", f"nn-{number}")
            instance["InstanceLabel"] = {f"network-node-layer-{n}": name for n, name in enumerate(names, 1)}
        file.write_text(json.dumps(config))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        groups = {"controller": ["ctl"], "train": ["n1", "n2"]}
        types = {"train": "ml.p5.48xlarge"}
        parameters = {"slurm": PLAN, "slurm_accounts": TEAMS}
        with nodes(Path(directory) / "lab", groups, types=types, parameters=parameters) as running:
            follow_teams(running)
            tell_places(running)
            running.shared.chmod(0o1777)
            keep_steps(running, *OWN_STEPS)
            for node in running.nodes.values():
                node.run("useradd", "--create-home", "--shell=/bin/bash", "--uid=2001", "ada")
            # One node's image has the module, the other's not.
            running["n2"].run("rm", "/lib/security/pam_slurm_adopt.so")
            for name in groups["train"]:
                has_gpus(running[name])
            for name, done in running.provision().items():
                assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
            yield running


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Lab]:
    """The lab, all of whose nodes are idle, before and after."""
    yield lab
    has_gpus(lab["n1"])
    lab["ctl"].run("scancel", "--user=ubuntu", check=False)
    lab["ctl"].run("scancel", "--user=ada", check=False)
    for name in ("n1", "n2"):
        if states(lab)[name] != "idle":
            lab["ctl"].run("scontrol", "update", f"nodename={lab[name].hostname}", "state=resume", check=False)
    wait_for("all nodes are idle", lambda: set(states(lab).values()) == {"idle"})


def test_nodes_are_idle_at_once_and_have_what_their_type_has(cluster: Lab) -> None:
    assert states(cluster) == {"n1": "idle", "n2": "idle"}
    shown = cluster["ctl"].run("scontrol", "show", "node", cluster["n1"].hostname).stdout
    assert "Gres=gpu:h100:2" in shown and "CPUTot=2 " in shown
    assert f"RealMemory={int(4096 * 0.95)} " in shown
    assert "Partitions=train" in shown
    assert ends(cluster, submit(cluster, "srun --gres=gpu:1 printenv CUDA_VISIBLE_DEVICES", "--gres=gpu:1")) == "0\n"
    # What is the platform's own, on the nodes as well, which have no file of theirs.
    config = cluster["n1"].run("scontrol", "show", "config").stdout
    assert "SlurmdTimeout           = 10 sec" in config
    assert "/opt/trainway/slurm/health.sh" in config


def test_slurm_knows_the_switches(cluster: Lab) -> None:
    shown = cluster["ctl"].run("scontrol", "show", "topology").stdout
    assert f"SwitchName=nn-0 Level=0 LinkSpeed=1 Nodes={cluster['n1'].hostname}" in shown
    assert "SwitchName=nn-top Level=2" in shown


def test_teams_are_in_force_and_a_change_of_them_comes_by_itself(cluster: Lab) -> None:
    refused = "sbatch --uid=ada --chdir=/ --wrap=true 2>&1 || true"
    follow_teams(cluster, "ubuntu")
    cluster["ctl"].run("systemctl", "start", "trainway-accounts.service")
    assert "Invalid account" in cluster["ctl"].run("sh", "-c", refused).stdout
    ends(cluster, submit(cluster, "true"))
    follow_teams(cluster, "ubuntu", "ada")
    cluster["ctl"].run("systemctl", "start", "trainway-accounts.service")
    ends(cluster, submit(cluster, "true", user="ada"))
    follow_teams(cluster)
    cluster["ctl"].run("systemctl", "start", "trainway-accounts.service")
    conf = cluster["ctl"].run("cat", "/opt/slurm/etc/slurm.conf").stdout
    assert "PriorityType" not in conf and "SlurmdTimeout=10" in conf


def disks(lab: Lab) -> dict[str, str]:
    """What the scripts made on each node, without the database, which always changes."""
    found = {
        f"{name}:{path}": what for name, node in lab.nodes.items() for path, what in node.snapshot(times=True).items()
    }
    return {path: what for path, what in found.items() if "/var/lib/mysql" not in path}


@pytest.mark.exhaustive
def test_a_second_run_changes_nothing(cluster: Lab) -> None:
    before = disks(cluster)
    for name, done in cluster.provision().items():
        assert done.returncode == 0, f"{name}: {done.stdout}"
    after = disks(cluster)
    assert {path: what for path, what in after.items() if before.get(path) != what} == {}
    assert after.keys() == before.keys()


def test_a_node_that_lacks_a_gpu_is_drained_and_its_job_begins_on_another(cluster: Lab) -> None:
    cluster["n1"].run("rm", "/dev/nvidia1")
    job = submit(cluster, "hostname", f"--nodelist={cluster['n1'].hostname}")
    wait_for("the node is drained", lambda: states(cluster)["n1"].startswith("drain"))
    assert "1 of 2 devices /dev/nvidia* are there -> scontrol update node=" in reason(cluster, "n1")
    assert "reason=Action:Replace" in reason(cluster, "n1")
    wait_for("the job waits", lambda: state(cluster, job) == "PENDING")
    # Slurm begins a job that it queued again two minutes later.
    cluster["ctl"].run("scontrol", "update", f"jobid={job}", "StartTime=now", "ReqNodeList=")
    assert ends(cluster, job) == f"{cluster['n2'].hostname}\n"


def check(node: Node) -> None:
    """Run the health check as slurmd does. Raises AssertionError if it waits for a program that hangs."""
    node.run("/opt/trainway/slurm/health.sh", SLURMD_NODENAME=node.hostname, timeout=300)


def test_an_xid_that_is_the_gpus_fault_drains_the_node_and_a_programs_does_not(cluster: Lab) -> None:
    node = cluster["n1"]
    log = "[  9.1] NVRM: Xid (PCI:0000:53:00): {}, pid=7, name=python, Ch 00000008"
    node.write("/usr/local/bin/dmesg", f"#!/bin/sh\necho '{log.format(31)}'\n", 0o755)
    check(node)
    assert states(cluster)["n1"] == "idle"
    node.write("/usr/local/bin/dmesg", f"#!/bin/sh\necho '{log.format(79)}'\n", 0o755)
    check(node)
    assert reason(cluster, "n1").startswith("Xid 79 of 0000:53:00 since the node started -> ")
    # A reason that is there stays: HyperPod reads its own.
    cluster["ctl"].run("scontrol", "update", f"nodename={node.hostname}", "state=drain", "reason=Action:Replace")
    check(node)
    assert reason(cluster, "n1") == "Action:Replace"
    node.run("rm", "/usr/local/bin/dmesg")


def test_a_driver_that_does_not_answer_for_all_gpus_drains_the_node(cluster: Lab) -> None:
    node = cluster["n1"]
    node.write(
        "/usr/local/bin/nvidia-smi",
        "#!/bin/sh\necho GPU-1\necho Unable to determine the device handle; exit 15\n",
        0o755,
    )
    check(node)
    assert reason(cluster, "n1").startswith(
        "nvidia-smi has 1 of 2 GPUs: GPU-1 Unable to determine the device handle -> "
    )
    node.run("rm", "/usr/local/bin/nvidia-smi")


def test_a_file_system_that_is_not_mounted_is_the_nodes_fault_and_one_that_hangs_is_nobodys(cluster: Lab) -> None:
    node = cluster["n1"]
    node.write("/usr/local/bin/stat", "#!/bin/sh\nexec -a stat sleep 3600\n".replace("sh", "bash", 1), 0o755)
    check(node)
    check(node)
    assert states(cluster)["n1"] == "idle"
    node.run("rm", "/usr/local/bin/stat")
    assert "/fsx does not answer within 5 s" in node.run("journalctl", "--no-pager", "-n50").stdout
    node.run("umount", "/fsx")
    check(node)
    assert reason(cluster, "n1").startswith("/fsx is not mounted -> mount it on the node, then scontrol update node=")
    node.run("mount", "/fsx")


def test_a_full_disk_drains_the_node(cluster: Lab) -> None:
    node = cluster["n1"]
    free = int(node.run("df", "--output=avail", "--block-size=1M", "/").stdout.split()[1])
    node.run("fallocate", "--length", f"{free - 2}M", "/opt/large")
    check(node)
    assert "/ is 100 % full -> delete what nobody needs" in reason(cluster, "n1") or "99 % full" in reason(
        cluster, "n1"
    )
    node.run("rm", "/opt/large")


def test_nothing_of_a_job_is_left_on_the_node(cluster: Lab) -> None:
    node = cluster["n1"]
    node.run("touch", "/dev/shm/of-another")
    script = (
        "touch /dev/shm/nccl-$SLURM_JOB_ID /tmp/torch-$SLURM_JOB_ID; until [ -e /run/job-may-end ]; do sleep 0.1; done"
    )
    job = submit(cluster, script, f"--nodelist={node.hostname}")
    wait_for("the job runs", lambda: state(cluster, job) == "RUNNING")
    # Out of the job's cgroup, as what another service started for it would be; its environment still says whose it is.
    escaped = "setpriv --reuid=ubuntu --regid=ubuntu --clear-groups setsid --fork sleep 3600 >/dev/null 2>&1"
    node.run("sh", "-c", escaped, SLURM_JOB_ID=job)
    sleeps = ("pgrep", "-u", "ubuntu", "-f", "sleep 3600")
    wait_for("the process has begun", lambda: bool(node.run(*sleeps, check=False).stdout))
    node.run("touch", "/run/job-may-end")
    ends(cluster, job)
    wait_for("the node is idle", lambda: states(cluster)["n1"] == "idle")
    assert node.run(*sleeps, check=False).stdout == ""
    # Not in a checkout that is below /tmp.
    assert node.run("find", "/dev/shm", "/tmp", "-xdev", "-type", "f").stdout == "/dev/shm/of-another\n"
    node.run("rm", "/dev/shm/of-another", "/run/job-may-end")


def of_walls(node: Node, name: str) -> str:
    """Return the elements of an nft set of the walls around jobs, in one line."""
    listed = node.run("nft", "list", "set", "inet", "trainway_jobs", name).stdout
    return " ".join(listed.partition("elements = {")[2].partition("}")[0].split())


def test_a_node_has_walls_before_its_first_job_and_the_nodes_of_a_job_during_it(cluster: Lab) -> None:
    node = cluster["n1"]
    assert node.run("systemctl", "is-active", "trainway-job-walls.service").stdout == "active\n"
    addresses = sorted(cluster[name].address for name in ("n1", "n2"))
    assert of_walls(node, "of_jobs_4") == "" and of_walls(node, "nodes_4") == ", ".join(addresses)
    assert of_walls(node, "controllers_4") == cluster["ctl"].address
    job = submit(cluster, "srun hostname; sleep 3600", "--nodes=2")
    said = cluster.shared / f"{job}.out"
    wait_for("its step has ended", lambda: said.exists() and len(said.read_text().split()) == 2)
    for name in ("n1", "n2"):
        assert of_walls(cluster[name], "of_jobs_4") == ", ".join(addresses)
        assert of_walls(cluster[name], "of_users_4").count(" . ") == 2
    cluster["ctl"].run("scancel", job)
    wait_for("the epilog has run", lambda: of_walls(node, "of_jobs_4") == "")


# Six CPU seconds. The test of a node that lacks a GPU shows that a node whose prolog fails is drained, and that its job
# starts on another one.
@pytest.mark.exhaustive
def test_a_node_whose_walls_fail_is_drained_with_the_reason_and_the_job_starts_elsewhere(cluster: Lab) -> None:
    node = cluster["n1"]
    node.write("/usr/local/bin/nft", "#!/bin/sh\necho 'netlink: Error: No buffer space' >&2; exit 1\n", 0o755)
    job = submit(cluster, "hostname", f"--nodelist={node.hostname}")
    wait_for("the node is drained", lambda: states(cluster)["n1"].startswith("drain"))
    assert reason(cluster, "n1") == (
        f"the walls around job {job} cannot be changed: netlink: Error: No buffer space -> "
        f"scontrol update node={node.hostname} state=resume"
    )
    node.run("rm", "/usr/local/bin/nft")
    cluster["ctl"].run("scontrol", "update", f"jobid={job}", "StartTime=now", "ReqNodeList=")
    assert ends(cluster, job) == f"{cluster['n2'].hostname}\n"


# tests/security/test_job_walls.py has such a node, and one that may not.
@pytest.mark.exhaustive
def test_a_node_that_cannot_have_walls_warns_and_one_that_may_not_takes_them_down(cluster: Lab) -> None:
    node = cluster["n1"]
    marker, table = "/opt/trainway/slurm/job-walls", ("nft", "list", "table", "inet", "trainway_jobs")
    done = run_step(node, "34-job-walls", SLURM_JOB_WALLS="false")
    assert done.returncode == 0 and "slurm.job_walls is false" in done.stdout
    assert node.run(*table, check=False).returncode != 0
    node.write("/usr/local/bin/nft", "#!/bin/sh\necho 'Operation not supported' >&2; exit 1\n", 0o755)
    done = run_step(node, "30-slurm", SLURM_JOB_WALLS="")
    assert done.returncode == 0 and node.run("ls", marker, check=False).returncode != 0, done.stdout
    done = run_step(node, "34-job-walls", SLURM_JOB_WALLS="")
    assert done.returncode == 0 and done.stdout.startswith(
        "WARNING: jobs on this node accept connections from everywhere: "
    )
    assert "Operation not supported; use an image with the package nftables" in done.stdout
    assert ends(cluster, submit(cluster, "hostname", f"--nodelist={node.hostname}")) == f"{node.hostname}\n"
    node.run("rm", "/usr/local/bin/nft")
    for step in ("30-slurm", "34-job-walls"):
        done = run_step(node, step)
        assert done.returncode == 0, done.stdout
    assert "only the nodes and the users of jobs connect" in done.stdout and node.run(*table).stdout


@pytest.fixture(scope="module")
def login(lab: Lab) -> Callable[[str, str, str], str]:
    """What a command says that a user gives to a node by SSH from the controller, and why it said nothing else."""
    lab["ctl"].run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/key")
    key = lab["ctl"].run("cat", "/root/key.pub").stdout
    for name in ("n1", "n2"):
        for user in ("ada", "ubuntu"):
            lab[name].write(f"/home/{user}/.ssh/authorized_keys", key)
            lab[name].run("chown", "-R", f"{user}:{user}", f"/home/{user}/.ssh")
    options = ["-i", "/root/key", "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", "-o", "LogLevel=INFO"]

    def say(user: str, name: str, command: str) -> str:
        done = lab["ctl"].run("ssh", *options, f"{user}@{lab[name].hostname}", command, check=False, timeout=300)
        return done.stdout.strip() or done.stderr

    return say


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_ssh_lets_in_who_has_a_job_there_and_who_may_use_sudo(
    cluster: Lab, login: Callable[[str, str, str], str], name: str
) -> None:
    assert "Access denied" in login("ada", name, "whoami")
    assert login("ubuntu", name, "whoami") == "ubuntu"
    job = submit(cluster, "sleep 3600", f"--nodelist={cluster[name].hostname}", user="ada")
    wait_for("the job runs", lambda: state(cluster, job) == "RUNNING")
    wait_for("ada may come", lambda: login("ada", name, "whoami") == "ada")
    other = {"n1": "n2", "n2": "n1"}[name]
    assert "Access denied" in login("ada", other, "whoami")
    cgroup = login("ada", name, "grep -c job_ /proc/self/cgroup")
    assert (int(cgroup) > 0) == (name == "n1")
    login("ada", name, "setsid --fork sleep 3600 >/dev/null 2>&1 </dev/null")
    cluster["ctl"].run("scancel", job)
    wait_for("the node is idle", lambda: states(cluster)[name] == "idle")
    assert cluster[name].run("pgrep", "-u", "ada", check=False).stdout == ""


@pytest.mark.exhaustive
def test_settings_that_slurmctld_does_not_start_with_are_taken_back_and_the_others_stay(cluster: Lab) -> None:
    node = cluster["ctl"]
    place = f"{DOWNLOADED}/parameters.json"
    before, conf = (node.root / place[1:]).read_text(), node.run("cat", "/opt/slurm/etc/slurm.conf").stdout
    broken = json.loads(before)
    broken["slurm"] = PLAN | {"settings": {"SelectType": "select/nonsense"}}
    node.write(place, json.dumps(broken))
    done = node.provision(SLURM_ANSWER_SECONDS="5")
    assert done.returncode == 0, done.stdout
    assert "is as it was, without" in done.stdout and "SelectType=select/nonsense" in done.stdout
    assert "WARNING: Slurm continues without slurm.settings of the platform file" in done.stdout
    left = node.run("cat", "/opt/slurm/etc/slurm.conf").stdout
    assert "select/nonsense" not in left and "HealthCheckInterval=300" in left
    node.write(place, before)
    assert node.provision().returncode == 0
    assert node.run("cat", "/opt/slurm/etc/slurm.conf").stdout == conf


@pytest.mark.exhaustive
def test_a_backup_controller_takes_over_while_a_job_runs() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        groups = {"controller": ["ctl", "backup"], "train": ["n1"]}
        plan = {"settings": {"SlurmctldTimeout": "5", "SlurmdTimeout": "30", "MessageTimeout": "3"}}
        with nodes(Path(directory) / "lab", groups, parameters={"slurm": plan}) as lab:
            lab.shared.chmod(0o1777)
            keep_steps(lab, *OWN_STEPS)
            for name, done in lab.provision().items():
                assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
            assert states(lab) == {"n1": "idle"}
            wait_for("both answer", lambda: lab["n1"].run("scontrol", "ping", check=False).stdout.count(" UP") == 2)
            job = submit(lab, "until [ -e /fsx/go ]; do sleep 0.2; done; hostname", "--job-name=saved-in-time")
            wait_for("the job runs", lambda: state(lab, job) == "RUNNING")
            # A controller writes down what it knows every five seconds: a younger job would be lost with it.
            written = lab.shared / ".trainway/slurm/atlas/state/job_state"
            wait_for("the job is written down", lambda: written.exists() and b"saved-in-time" in written.read_bytes())
            lab["ctl"].cut_power()
            wait_for("the backup answers", lambda: state(lab, job, "backup") == "RUNNING")
            (lab.shared / "go").touch()
            assert ends(lab, job, "backup") == f"{lab['n1'].hostname}\n"
            # It takes new jobs as well, with numbers of their own, and the first controller finds them when it is back.
            after = submit(lab, "hostname", controller="backup")
            assert int(after) > int(job)
            ends(lab, after, "backup")
            lab["ctl"].boot()
            wait_for(
                "the first one is back", lambda: lab["n1"].run("scontrol", "ping", check=False).stdout.count(" UP") == 2
            )
            wait_for("it knows the job", lambda: state(lab, after) == "COMPLETED")
