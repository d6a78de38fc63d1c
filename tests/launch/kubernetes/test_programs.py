"""Each kind runs the program of a section `run`, watches it by its own words, and a real mpirun starts and stops it."""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.kubelet import Pod, resolved
from tests.launch.kubernetes.platforms import hand_off_of, platform_named, pods_of, request_for, without_copies
from tests.launch.kubernetes.test_rendering import container_of
from tests.manifests.platforms import CATALOGUE
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents
from trainway.launch.kubernetes.job_state import job_state, node_index
from trainway.launch.kubernetes.kubectl import named
from trainway.launch.kubernetes.mpirun import KEYS, MPIRUN, SSH_PORT
from trainway.launch.node.nodes_of_run import read_nodes
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import LockedPackages
from trainway.launch.program.request import Request
from trainway.launch.target.protocol import Phase
from trainway.spec.errors import UsageError

CODE = "s3://atlas-data/c.tar.gz"
# A rank that saves for a second after SIGTERM, and then ends with a status that is not 0.
RANK = """\
import os, signal, sys, time
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
print("begins", os.environ["SLURM_PROCID"], os.environ["TRAINWAY_NODE_RANK"], os.environ["GREETING"], flush=True)
until = time.monotonic() + 3600
while not stopped and time.monotonic() < until:
    time.sleep(0.05)
time.sleep(1)
print("saved", os.environ["RANK"], flush=True)
sys.exit(3)
"""
# A container has a user that is not root, and the tests have root.
AS_ROOT = (
    "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
)
# In the place of ssh: a process with the name of the host and without the variables of the one that starts it.
SSH = f"""\
#!/bin/sh
[ "$1 $2 $3 $4" = "-p {SSH_PORT} -i {KEYS}/id_rsa" ] || exit 9
while :; do case $1 in -x) shift;; -*) shift 2;; *) break;; esac; done
host=$1; shift
exec env -i PATH=/usr/bin:/bin HOME=/tmp {" ".join(f"{name}=1" for name in AS_ROOT)} \\
    unshare --uts sh -c "hostname $host; $*"
"""


def requested(directory: Path, platform: str = "kueue", **changes: Any) -> Request:
    program = load_program(write_foreign_job(directory, **{"nodes": 2, **changes}))
    hand_off = hand_off_of(platform_named(platform))
    program = dataclasses.replace(program, team=next(iter(hand_off.teams), None))
    image = "111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:" + 64 * "0"
    return Request(program, "first", hand_off, image, allocate(program, hand_off, CATALOGUE), CODE)


def rendered(request: Request, kind: Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the files that go with the program, and the job."""
    files, *_, job = render_documents(request, CATALOGUE, KubernetesOptions(kind=kind))
    return files["data"], job


def test_a_job_set_runs_any_command_and_stays_as_long_as_the_file_says(tmp_path: Path) -> None:
    request = requested(tmp_path, command=["python", "train.py"])
    files, job = rendered(request, "JobSet")
    (replicated,) = job["spec"]["replicatedJobs"]
    of_job = replicated["template"]["spec"]
    assert (of_job["completionMode"], of_job["parallelism"], of_job["completions"]) == ("Indexed", 2, 2)
    container = container_of(pods_of(job)[0])
    command = without_copies(container["command"])
    assert command[:2] == ["python3", "/etc/trainway/start_program.py"]
    assert command[-4:] == [f"--code={CODE}", "--", "python", "train.py"]
    first = f"{job['metadata']['name']}-node-0-0.{job['metadata']['name']}.research.svc.cluster.local"
    assert {"name": "PET_RDZV_ENDPOINT", "value": f"{first}:29500"} in container["env"]
    assert {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [126, 127]}} in of_job["podFailurePolicy"][
        "rules"
    ]
    assert job["spec"]["failurePolicy"]["rules"][0]["action"] == "FailJobSet"
    assert job["spec"]["ttlSecondsAfterFinished"] == 168 * 3600
    assert "start_program.py" in files


def test_hyperpods_agent_starts_the_ranks_below_the_starter(tmp_path: Path) -> None:
    request = requested(tmp_path, "governance", stop={"grace": 60})
    _, job = rendered(request, "HyperPodPyTorchJob")
    command = without_copies(container_of(pods_of(job)[0])["command"])
    assert command[:2] == ["python3", "/etc/trainway/start_program.py"]
    agent = command[command.index("--") + 1 :]
    options = ["--shutdown-signal=SIGTERM", "--shutdown-timeout=55"]
    assert agent == ["hyperpodrun", *options, "train.py"]
    request = requested(tmp_path, "governance", stop={"grace": 60}, command=["python", "train.py"], ranks="per-gpu")
    command = container_of(pods_of(rendered(request, "HyperPodPyTorchJob")[1])[0])["command"]
    assert command[-6:] == ["hyperpodrun", *options, "--no-python", "python", "train.py"] and "--per-gpu" in command


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        ({"command": ["torchrun", "train.py"]}, 1),
        ({"command": ["/opt/nccl-tests/bin/all_reduce_perf", "-b", "8"]}, 8),
        ({"command": ["python", "train.py"], "ranks": "per-gpu"}, 8),
        ({"command": ["mpirun", "-np", "4", "./a.out"]}, None),
        ({"command": None, "script": "mpirun ./prepare && mpirun ./train"}, None),
    ],
)
def test_mpirun_starts_torchrun_once_on_a_node_and_others_once_for_each_gpu(
    changes: dict[str, Any], ranks: int | None, tmp_path: Path
) -> None:
    request = requested(tmp_path, **changes)
    files, job = rendered(request, "MPIJob")
    launcher, worker = (container_of(each) for each in pods_of(job))
    command = without_copies(launcher["command"])
    started, options = command[command.index("--") + 1 :], command[: command.index("--")]
    if ranks is None:
        assert tuple(started) == request.program.command and options[-1] == f"--code={CODE}"
        assert "--stop-signal=SIGUSR1" not in options, "the program gets the signal of the job file"
    else:
        assert started[0] == MPIRUN and started[started.index("-np") + 1] == str(2 * ranks)
        assert started[started.index("--map-by") + 1] == f"ppr:{ranks}:node"
        # mpirun takes the place of torchrun, which would only start the program once for each GPU.
        is_per_gpu = "ranks" in changes
        words = request.program.command[2:] if is_per_gpu else request.program.command
        given = ["--stop-signal=SIGTERM", *(["--per-gpu"] if is_per_gpu else [])]
        assert started[started.index("--rank") + 1 :] == [*given, "--", *words]
        assert "--per-gpu" not in options
        assert "--stop-signal=SIGUSR1" in options
    assert worker["command"][-1] == CODE, "mpirun starts ranks in a directory that the worker has, too"
    assert job["spec"]["slotsPerWorker"] == 8 and "start_program.py" in files


def test_a_ray_job_submits_the_starter_as_the_driver_of_a_cluster_of_its_nodes(tmp_path: Path) -> None:
    request = requested(tmp_path, command=["python", "train.py", "it's"])
    files, job = rendered(request, "RayJob")
    spec, cluster = job["spec"], job["spec"]["rayClusterSpec"]
    assert spec["entrypoint"] == "sh /etc/trainway/entrypoint.sh", "it has no word that Ray would have to quote"
    started = without_copies(shlex.split(files["entrypoint.sh"].splitlines()[-1]))
    assert started[:3] == ["exec", "python3", "/etc/trainway/start_program.py"]
    assert started[-5:] == [f"--code={CODE}", "--", "python", "train.py", "it's"]
    assert spec["shutdownAfterJobFinishes"] and spec["backoffLimit"] == 10
    head, (workers,) = cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"]
    assert workers["replicas"] == workers["maxReplicas"] == 1, "the head is one of the two nodes"
    containers = [container_of(head), container_of(workers["template"])]
    # The ranks of the driver import its modules on each node.
    assert [each["command"] for each in containers] == [[".", "/etc/trainway/prepare.sh"]] * 2
    assert CODE in files["prepare.sh"] and "export PYTHONPATH=" in files["prepare.sh"]
    annotations = [each["metadata"]["annotations"] for each in (head, workers["template"])]
    assert [each["kueue.x-k8s.io/podset-group-name"] for each in annotations] == ["nodes", "nodes"]
    requests = [each["resources"]["requests"] for each in containers]
    left = [int(requests[1][name].strip("mMi")) - int(requests[0][name].strip("mMi")) for name in ("cpu", "memory")]
    assert left == [500, 200], "what the container that submits the job requests"
    assert "workerGroupSpecs" not in rendered(requested(tmp_path, nodes=1), "RayJob")[1]["spec"]["rayClusterSpec"]


def test_ranks_on_every_node_have_the_packages_of_the_run(tmp_path: Path) -> None:
    request = requested(tmp_path, packages=["einops==0.8.1"], command=["python", "train.py"])
    locked = dataclasses.replace(request.program, lock=LockedPackages("einops==0.8.1 --hash=sha256:0\n"))
    request = dataclasses.replace(request, program=locked)
    files, job = rendered(request, "MPIJob")
    command = container_of(pods_of(job)[0])["command"]
    rank = command[command.index("--rank") :]
    assert "--packages=/etc/trainway/packages.txt" in rank[: rank.index("--")]
    assert {"install_packages.py", "packages.txt"} <= files.keys()
    files, _ = rendered(request, "RayJob")
    assert "install_packages.py /etc/trainway/packages.txt" in files["prepare.sh"]


def test_gpus_that_a_pod_claims_are_told_to_ray(tmp_path: Path) -> None:
    for platform, told in (("kueue", {}), ("claims", {"num-gpus": "8"})):
        _, job = rendered(requested(tmp_path, platform), "RayJob")
        assert job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"] == told


def test_the_hooks_of_ray_pods_let_the_program_save(tmp_path: Path) -> None:
    """The head asks the starter to stop and waits for it. The workers, which have its ranks, wait for the head."""
    _, job = rendered(requested(tmp_path), "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in (("sleep", "/bin/sleep 0.2"), ("ray", 'echo "$@" >> "$TRAINWAY_RUN/ray"')):
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    (run := tmp_path / "run").mkdir()
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "TRAINWAY_RUN": str(run)}
    # In the place of the starter, in processes that nobody else's starters are in.
    starter = tmp_path / "start_program.py"
    starter.write_text(
        "import os, time\n"
        "while not os.path.exists(os.environ['TRAINWAY_RUN'] + '/stop'): time.sleep(0.05)\n"
        "open(os.environ['TRAINWAY_RUN'] + '/saved', 'w').close()\n"
    )
    environment |= {"PYTHON": sys.executable, "STARTER": str(starter)}
    templates = (cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"])
    hooks = [container_of(each)["lifecycle"]["preStop"]["exec"]["command"] for each in templates]
    both = '"$PYTHON" "$STARTER" & "$@"'
    for hook, command in zip(hooks, (["sh", "-c", both, "sh"], []), strict=True):
        own = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", *command, *hook]
        subprocess.run(own, env=environment, check=True, timeout=300)
    assert (run / "saved").exists() and not (run / "stop").exists(), "the next attempt must not stop at once"
    assert (run / "ray").read_text().splitlines() == ["stop --grace-period 5"] * 2


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({}, Phase.STARTING),
        ({"jobDeploymentStatus": "Suspended"}, Phase.STOPPED),
        ({"jobDeploymentStatus": "Retrying", "jobStatus": ""}, Phase.STARTING),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, Phase.SUCCEEDED),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, Phase.STOPPED),
        ({"jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": "exit code 1"}, Phase.FAILED),
        ({"jobDeploymentStatus": "ValidationFailed", "message": "the name is too long"}, Phase.FAILED),
    ],
)
def test_what_kuberay_says_of_a_job_is_understood(status: dict[str, str], phase: Phase) -> None:
    found = job_state({"kind": "RayJob", "metadata": {"name": "first"}, "status": status}, (), ())
    assert found.phase is phase and status.get("message", "") in found.reason


def test_the_head_is_the_first_node_of_a_ray_job() -> None:
    worker = {"ray.io/node-type": "worker", "ray.io/worker-group-replica-index": "2"}
    labels = [{"ray.io/node-type": "head"}, worker]
    assert [node_index({"metadata": {"name": "first-x", "labels": each}}) for each in labels] == [0, 3]


@pytest.mark.parametrize(
    ("changes", "options", "why"),
    [
        ({}, {"min_nodes": 1}, "the number of nodes of a Ray cluster is fixed"),
        ({"life_cycle": {"keep_hours": 1}}, {}, "KubeRay has no time to live"),
        ({"run": {"command": ["python", "train.py"], "ranks": "per-gpu"}}, {}, "a RayJob starts one driver"),
    ],
)
def test_what_kuberay_cannot_do_is_refused(changes: dict[str, Any], options: dict[str, Any], why: str) -> None:
    request = request_for("kueue", **{"run": {"command": ["python", "train.py"]}, **changes})
    with pytest.raises(UsageError, match=why):
        render_documents(request, CATALOGUE, KubernetesOptions(kind="RayJob", **options))
    with pytest.raises(UsageError, match="training\\.elastic starts"):
        render_documents(request_for("kueue"), CATALOGUE, KubernetesOptions(kind="RayJob"))


@pytest.mark.parametrize(
    ("kind", "condition", "phase"),
    [
        ("JobSet", {"type": "Completed", "reason": "AllJobsCompleted"}, Phase.SUCCEEDED),
        ("JobSet", {"type": "Failed", "reason": "FailJobSetFailurePolicyAction"}, Phase.FAILED),
        ("JobSet", {"type": "Suspended", "reason": "SuspendedJobs"}, Phase.STOPPED),
        ("MPIJob", {"type": "Succeeded", "reason": "MPIJobSucceeded"}, Phase.SUCCEEDED),
        ("MPIJob", {"type": "Failed", "reason": "MPIJobFailed"}, Phase.FAILED),
        ("MPIJob", {"type": "Suspended", "reason": "MPIJobSuspended"}, Phase.STOPPED),
        ("MPIJob", {"type": "Running", "reason": "MPIJobRunning"}, Phase.STARTING),
        ("HyperPodPyTorchJob", {"type": "Completed", "reason": "JobCompleted"}, Phase.SUCCEEDED),
    ],
)
def test_the_words_of_each_kind_are_understood(kind: str, condition: dict[str, str], phase: Phase) -> None:
    job = {"kind": kind, "metadata": {"name": "first"}, "status": {"conditions": [{**condition, "status": "True"}]}}
    assert job_state(job, (), ()).phase is phase
    assert "." in named(kind, "first"), "several groups may have a kind of one name"


def open_mpi() -> Path:
    """Return the mpirun of the package `openmpi`."""
    return Path(sys.executable).with_name("mpirun")


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The launcher's container of a rendered MPIJob with two nodes of two ranks, as processes of this machine."""
    (tmp_path / "rank.py").write_text(RANK)
    command = [sys.executable, str(tmp_path / "rank.py")]
    given: dict[str, Any] = {"environment": {"GREETING": "good day"}, "ranks": "per-gpu"}
    request = requested(tmp_path, command=command, code=None, **given)
    request = dataclasses.replace(request, code=None, allocation=dataclasses.replace(request.allocation, ranks=2))
    files, job = rendered(request, "MPIJob")
    container = container_of(pods_of(job)[0])
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    hosts = [f"{name}.first.research.svc slots=2" for name in ("first-launcher", "first-worker-0")]
    (tmp_path / "hostfile").write_text("\n".join([*hosts, ""]))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH)
    (tmp_path / "bin/ssh").chmod(0o755)
    told = resolved(container["env"], Pod(0, "first-launcher", "first-launcher"))
    environment = {
        **{name: value.replace("/etc/mpi", str(tmp_path)) for name, value in told.items()},
        "PATH": f"{tmp_path / 'bin'}:{open_mpi().parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TRAINWAY_RUN": str(tmp_path / "run"),
        "TRAINWAY_OUTPUT": str(tmp_path / "run/outputs"),
        "PET_LOG_DIR": str(tmp_path / "logs"),
        **dict.fromkeys(AS_ROOT, "1"),
    }
    words = [word.replace("/etc/trainway", str(tmp_path)).replace(MPIRUN, "mpirun") for word in container["command"]]
    as_first = ["unshare", "--uts", "sh", "-c", f'hostname {hosts[0].split()[0]}; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*as_first, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


@pytest.mark.skipif(os.geteuid() != 0 and "CI" not in os.environ, reason="only root gives a process a host name")
def test_a_real_mpirun_starts_ranks_on_two_nodes_and_lets_each_save_when_it_is_stopped(
    launcher: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Open MPI 5 finds the hosts and passes on the variables. Without the starter, it kills ranks within a second."""
    assert launcher.stdout is not None
    said: list[str] = []
    for line in launcher.stdout:
        said.append(line.strip())
        if sum(each.startswith("begins") for each in said) == 4:
            break
    assert sorted(each for each in said if each.startswith("begins")) == [
        "begins 0 0 good day",
        "begins 1 0 good day",
        "begins 2 1 good day",
        "begins 3 1 good day",
    ], said
    launcher.send_signal(signal.SIGTERM)
    rest, _ = launcher.communicate(timeout=60)
    assert sorted(line for line in rest.splitlines() if line.startswith("saved")) == [f"saved {n}" for n in range(4)]
    assert launcher.returncode == 75 and "stopped on node 0" in rest, rest
    assert len(read_nodes([tmp_path / "run/nodes"], "attempt 1")) == 2
