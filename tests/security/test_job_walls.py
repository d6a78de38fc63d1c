"""With walls, only the nodes and the user of a job connect to its programs: on a real Slurm, with nftables."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lifecycle_scripts.slurm.platform_settings import SRUN_PORTS, settings
from tests.launch.slurm.machines import ADDRESSES, CONTROLLER, SWITCH, Machines, machines, missing
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.synthesis import ROOT
from trainway.launch.program.rank_launchers import RENDEZVOUS_PORT
from trainway.spec.facts import metrics_ports

WHY_NOT = missing() or (None if shutil.which("nft") or "CI" in os.environ else "nft is not installed")
SCRIPTS = ROOT / "lifecycle_scripts" / "slurm"
NODES = ("n1", "n2", "n3")
# Three users of the operating system, as no others are on every machine. Root is who breaks in where no user is said.
ROOT_USER, VICTIM, ATTACKER, IDLE = 0, 1, 5, 6
SLURMD_PORT = 6818
# A host of the VPC that Slurm does not know, such as a login node: the bridge that connects the machines.
STRANGER = SWITCH
NUMBERS = {CONTROLLER: 10, "n1": 11, "n2": 12, "n3": 13, STRANGER: 200}
V4 = {name: f"{ADDRESSES}.{number}" for name, number in NUMBERS.items()}
V6 = {name: f"fd00:77::{number}" for name, number in NUMBERS.items()}
# Answers on TCP and UDP, over IPv4 and IPv6.
SERVER = """
import socket, sys, threading
port = int(sys.argv[1])
listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=100)
datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
datagrams.bind(("::", port))
def echo():
    while True:
        datagrams.sendto(*datagrams.recvfrom(100))
threading.Thread(target=echo, daemon=True).start()
print("listens", flush=True)
while True:
    listener.accept()[0].close()
"""
CLIENT = """
import socket, sys
host, port, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if kind == "tcp":
    socket.create_connection((host, port), 30).close()
else:
    asks = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    asks.settimeout(1)
    asks.connect((host, port))
    asks.send(b"ping")
    asks.recv(100)
"""
RANKS = """
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
found = torch.tensor([torch.distributed.get_rank() + 1])
torch.distributed.all_reduce(found)
print("sum", int(found), flush=True)
"""
# A node that publishes ports of a container, and a network with hosts of two addresses.
PUBLISHED = """
mount -t tmpfs run /run
for each in container hosts; do ip netns add $each; ip -n $each link set lo up; done
ip link add name to-c type veth peer name eth0 netns container
ip link add name to-h type veth peer name eth0 netns hosts
ip address add 10.9.0.1/24 dev to-c
ip address add 10.77.0.1/24 dev to-h
ip -n container address add 10.9.0.2/24 dev eth0
for each in 12 13; do ip -n hosts address add 10.77.0.$each/24 dev eth0; done
for each in to-c to-h; do ip link set $each up; done
for each in container hosts; do ip -n $each link set eth0 up; done
ip -n container route add default via 10.9.0.1
echo 1 >/proc/sys/net/ipv4/ip_forward
nft 'table ip docker { chain in { type nat hook prerouting priority dstnat;
  tcp dport { 80, 30001 } dnat to 10.9.0.2:80; }; }'
nft --file - <<<"$1"
mkfifo /run/listens
ip netns exec container /usr/bin/python3 -c "import socket, time
s = socket.create_server(('', 80)); open('/run/listens', 'w').close(); time.sleep(3600)" &
cat /run/listens
for source in 12 13; do
  for port in 80 30001; do
    ip netns exec hosts /usr/bin/python3 -c "import socket
socket.create_connection(('10.77.0.1', $port), 30, ('10.77.0.$source', 0))" 2>/dev/null && echo $source:$port
  done
done
exit 0
"""


@pytest.fixture(scope="module")
def walls() -> ModuleType:
    spec = importlib.util.spec_from_file_location("job_walls", SCRIPTS / "job_walls.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    scripts = Path("/var/tmp") / f"trainway-walls-{os.getpid()}"
    scripts.mkdir()
    for name, kind in (("prolog.sh", "begin"), ("epilog.sh", "end")):
        (scripts / name).write_text(f"#!/bin/sh\nexec /usr/bin/python3 {SCRIPTS / 'job_walls.py'} {kind}\n")
        (scripts / name).chmod(0o755)
    written = settings({"job_walls": None}, "slurm-wlm 22.05.8", str(scripts))
    written.pop("SchedulerParameters")
    try:
        with machines(NODES, settings=written) as started:
            # Others than root may submit jobs.
            started.directory.chmod(0o755)
            started.shared.chmod(0o777)
            (started.shared / "server.py").write_text(SERVER)
            for name, address in V6.items():
                device = "br0" if name == STRANGER else "eth0"
                run(started, name, "ip", "address", "add", f"{address}/64", "dev", device, "nodad")
            run(started, STRANGER, "ip", "address", "add", f"{V4[STRANGER]}/24", "dev", "br0")
            with (started.directory / "hosts").open("a") as hosts:
                hosts.writelines(f"{V6[name]}\t{name}\n" for name in NODES)
            for name in NODES:
                run(started, name, "/usr/bin/python3", str(SCRIPTS / "job_walls.py"), "start")
            yield started
    finally:
        shutil.rmtree(scripts)


def run(cluster: Machines, machine: str, *command: str) -> str:
    done = subprocess.run(cluster.on(machine, *command), cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{machine}: {' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def of_user(user: int, *command: str) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command)


def submit(cluster: Machines, nodes: str, script: str, user: int = VICTIM) -> str:
    """A batch job with one CPU of each node, so that another one can share it."""
    out = cluster.shared / "%j.out"
    options = (f"--nodelist={nodes}", f"--nodes={nodes.count(',') + 1}", "--ntasks-per-node=1", "--mem=100")
    return cluster.ask(
        *of_user(user, "sbatch", "--parsable", *options, f"--output={out}", "--chdir=/", f"--wrap={script}")
    )


def serving(cluster: Machines, nodes: str, user: int = VICTIM, port: int = RENDEZVOUS_PORT) -> str:
    """A job whose program listens on every node. srun in the job starts it, and passes on what it says."""
    job = submit(cluster, nodes, f"srun /usr/bin/python3 {cluster.shared}/server.py {port}", user)
    said = cluster.shared / f"{job}.out"
    wait_for(
        "the program listens on all nodes",
        lambda: said.exists() and said.read_text().count("listens") == nodes.count(",") + 1,
    )
    return job


def connects(
    cluster: Machines,
    source: str,
    target: str,
    port: int = RENDEZVOUS_PORT,
    *,
    user: int = ROOT_USER,
    kind: str = "tcp",
) -> bool:
    """Return whether a process on the source connects to a port of the address."""
    command = of_user(user, "/usr/bin/python3", "-c", CLIENT, target, str(port), kind)
    return subprocess.run(cluster.on(source, *command), cwd="/", capture_output=True, timeout=300).returncode == 0


def ways(cluster: Machines, source: str, target: str, user: int = ROOT_USER) -> set[str]:
    """Return the protocols and IP versions with which a process on the source reaches the rendezvous port."""
    tried = [(kind, version) for kind in ("tcp", "udp") for version in (4, 6)]
    return {
        f"{kind}{version}"
        for kind, version in tried
        if connects(cluster, source, (V4 if version == 4 else V6)[target], user=user, kind=kind)
    }


ALL = {"tcp4", "tcp6", "udp4", "udp6"}


def ended(cluster: Machines, *jobs: str) -> None:
    cluster.ask("scancel", *jobs)
    # A node whose epilog still runs is idle, too. The job is completing until then.
    wait_for("no job is left", lambda: not cluster.ask("squeue", "--noheader"))
    wait_for("the nodes are idle", lambda: set(cluster.idle()) == set(NODES))


def test_only_nodes_of_the_job_connect_to_its_programs(cluster: Machines) -> None:
    job = serving(cluster, "n1,n2")
    assert ways(cluster, "n1", "n2", VICTIM) == ALL and ways(cluster, "n2", "n1", VICTIM) == ALL
    attackers = ("n3", CONTROLLER, STRANGER)
    reached = {(source, target): ways(cluster, source, target) for source in attackers for target in ("n1", "n2")}
    assert reached == {way: set() for way in reached}
    for source in attackers:
        assert connects(cluster, source, V4["n1"], SLURMD_PORT), "slurmd"
    # A job of somebody else on the third node changes nothing.
    other = serving(cluster, "n3", ATTACKER)
    assert ways(cluster, "n3", "n1") == set() and ways(cluster, "n1", "n3") == set()
    ended(cluster, job, other)

    together = serving(cluster, "n1,n3")
    assert ways(cluster, "n3", "n1") == ALL, "the third node is of the next job"
    assert ways(cluster, "n2", "n1") == set(), "the node of the earlier job is not"
    ended(cluster, together)


def test_nobody_connects_to_what_a_job_has_left_on_the_node(cluster: Machines) -> None:
    ended(cluster, serving(cluster, "n1,n2"))
    server = ("/usr/bin/python3", str(cluster.shared / "server.py"), str(RENDEZVOUS_PORT))
    # nsenter starts it, and ends without it.
    command = cluster.on("n1", "setpriv", "--pdeathsig=KILL", *server)
    with subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE) as left:
        try:
            assert left.stdout is not None and left.stdout.readline() == b"listens\n"
            assert connects(cluster, "n1", V4["n1"]), "the node itself"
            assert {source: ways(cluster, source, "n1") for source in ("n2", CONTROLLER, STRANGER)} == {
                "n2": set(),
                CONTROLLER: set(),
                STRANGER: set(),
            }
        finally:
            left.kill()


def test_only_the_user_of_a_job_connects_to_its_other_nodes(cluster: Machines) -> None:
    job = serving(cluster, "n1,n2")
    beside = submit(cluster, "n1", "sleep 3600", ATTACKER)
    wait_for("it runs", lambda: cluster.ask("squeue", "--noheader", f"--jobs={beside}", "--format=%t") == "R")
    assert ways(cluster, "n1", "n2", VICTIM) == ALL
    assert ways(cluster, "n1", "n2", ATTACKER) == set(), "whose job shares the node"
    assert ways(cluster, "n1", "n2", IDLE) == set(), "who has no job"
    assert connects(cluster, "n1", V4["n2"], SLURMD_PORT, user=ATTACKER), "srun of the other job"
    ended(cluster, job, beside)
    # The same port is open to whose job it is.
    of_other = serving(cluster, "n1,n2", ATTACKER)
    assert ways(cluster, "n1", "n2", ATTACKER) == ALL and ways(cluster, "n1", "n2", VICTIM) == set()
    ended(cluster, of_other)


def test_slurmctld_reaches_srun_in_a_job_and_nobody_else_does(cluster: Machines) -> None:
    job = serving(cluster, "n1,n2")
    low, high = map(int, SRUN_PORTS.split("-"))
    listening = re.findall(r":(\d+)\s", run(cluster, "n1", "ss", "--no-header", "--listening", "--tcp", "--numeric"))
    ports = sorted({int(port) for port in listening if low <= int(port) <= high})
    assert ports, listening
    assert connects(cluster, CONTROLLER, V4["n1"], ports[0]) and connects(cluster, "n2", V4["n1"], ports[0])
    assert not connects(cluster, STRANGER, V4["n1"], ports[0]) and not connects(cluster, "n3", V4["n1"], ports[0])
    # A step that srun starts from a host outside of the job, as `trainway shell` on a login node does.
    step = ("srun", f"--jobid={job}", "--overlap", "--nodes=2", "--ntasks=2", "hostname")
    assert set(cluster.ask(*of_user(VICTIM, *step)).split()) == {"n1", "n2"}
    ended(cluster, job)


@pytest.mark.exhaustive
def test_torchrun_meets_and_its_ranks_reduce(cluster: Machines) -> None:
    """Connect to the store of the rendezvous and to the ports of gloo."""
    (cluster.shared / "ranks.py").write_text(RANKS)
    torchrun = f"{sys.executable} -m torch.distributed.run --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d"
    job = submit(cluster, "n1,n2", f"srun {torchrun} --rdzv-endpoint=n1:{RENDEZVOUS_PORT} {cluster.shared}/ranks.py")
    said = cluster.shared / f"{job}.out"
    wait_for("the ranks have ended", lambda: said.exists() and said.read_text().count("sum 3") == 2)
    wait_for("the nodes are idle", lambda: set(cluster.idle()) == set(NODES))


def test_every_host_reads_metrics(cluster: Machines) -> None:
    job = serving(cluster, "n1", port=metrics_ports.RUN_METRICS_PORT)
    assert connects(cluster, CONTROLLER, V4["n1"], metrics_ports.RUN_METRICS_PORT)
    assert connects(cluster, STRANGER, V4["n1"], metrics_ports.RUN_METRICS_PORT)
    ended(cluster, job)


def test_the_ports_of_metrics_are_those_of_the_exporters(walls: ModuleType) -> None:
    step = (ROOT / "lifecycle_scripts/steps/50-exporters.sh").read_text()
    exporters = dict(re.findall(r"\[(\w+)\]=(\d+)", step))
    del exporters["slurm"]  # which only the controller has
    assert set(walls.METRICS_PORTS) == {*exporters.values(), str(metrics_ports.RUN_METRICS_PORT)}


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_published_port_of_a_container_is_one_of_the_node(walls: ModuleType) -> None:
    """Test a published port, whose packets the node forwards to a container."""
    cluster = walls.SlurmHosts({}, [], ["6818"], SRUN_PORTS)
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", PUBLISHED, "-"]
    opened, walled = (
        subprocess.run([*command, text], capture_output=True, text=True, timeout=300, check=False)
        for text in ("", walls.rules(cluster, [], [walls.JobNodes(VICTIM, ["10.77.0.12"])]))
    )
    assert opened.stdout.split() == ["12:80", "12:30001", "13:80", "13:30001"], opened.stderr
    assert walled.stdout.split() == ["12:80", "12:30001", "13:80"], walled.stderr


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walls: ModuleType) -> Path:
    """A directory for the programs of a node that runs a job."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "slurm.conf").write_text("SlurmctldHost=ctl(10.1.0.9)\nNodeName=n1 NodeAddr=10.1.0.1\n")
    monkeypatch.setattr(walls, "PATH", str(tmp_path / "bin"))
    # The program sets it, and pytest restores what it has set itself.
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(walls, "JOBS", tmp_path / "jobs")
    told = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_UID": "2001"}
    for name, value in (told | {"SLURM_CONF": str(tmp_path / "slurm.conf")}).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "bin"


def program(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_rules_that_the_kernel_refuses_are_told_and_the_job_is_forgotten(
    walls: ModuleType, commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(commands / "nft", "echo 'Operation not permitted' >&2; exit 1")
    monkeypatch.setattr("sys.argv", ["job_walls.py", "begin"])
    assert walls.main() == 1
    assert capsys.readouterr().err == "the walls around job 7 cannot be changed: Operation not permitted\n"
    assert not list(walls.JOBS.iterdir())
    program(commands / "nft", "exit 0")
    assert walls.main() == 0 and [each.name for each in walls.JOBS.iterdir()] == ["7"]
    monkeypatch.setattr("sys.argv", ["job_walls.py", "end"])
    assert walls.main() == 0 and not list(walls.JOBS.iterdir())


def test_a_node_of_a_job_without_an_address_is_named_and_fails_no_job(
    walls: ModuleType, commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(commands / "nft", "exit 0")
    logged: list[str] = []
    monkeypatch.setattr(walls.syslog, "syslog", lambda _level, line: logged.append(line))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1,no-such-host.invalid")
    monkeypatch.setattr("sys.argv", ["job_walls.py", "begin"])
    assert walls.main() == 0
    assert len(logged) == 1 and logged[0].startswith("connections from no-such-host.invalid are refused")
    assert (walls.JOBS / "7").read_text() == '[2001, ["10.1.0.1"]]'


def installed(root: Path, choice: str, *limited: str) -> subprocess.CompletedProcess[str]:
    """Install the scripts of a node below a directory, with rules of nftables in a network of its own."""
    root.mkdir()
    (root / "parameters.json").write_text('{"orchestrator": "hyperpod-slurm"}')
    facts = {"INSTANCE_TYPE": "ml.p5.48xlarge", "FSX_MOUNT_PATH": "/fsx", "SLURM_HEALTH_CHECKS": "false"}
    chosen = {"SLURM_JOB_WALLS": choice, "SLURM_LOGIN_NEEDS_JOB": "false", "NODE_ROOT": str(root)}
    environment = {"PATH": os.environ["PATH"], **facts, **chosen}
    command = ["unshare", "--net", *limited, "bash", str(SCRIPTS / "install.sh"), str(root / "parameters.json")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_node_that_cannot_have_walls_runs_jobs_without_them_unless_the_file_requires_them(tmp_path: Path) -> None:
    cannot = ("setpriv", "--bounding-set=-net_admin")
    marker = "opt/trainway/slurm/job-walls"
    for name, choice, limited, has in (
        ("default", "", (), True),
        ("required", "true", (), True),
        ("refused", "false", (), False),
        ("impossible", "", cannot, False),
    ):
        done = installed(tmp_path / name, choice, *limited)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / name / marker).exists() is has, name
    failed = installed(tmp_path / "failed", "true", *cannot)
    assert failed.returncode == 1 and not (tmp_path / "failed" / marker).exists()
    assert "Operation not permitted" in failed.stdout and "or set slurm.job_walls to false" in failed.stdout


def test_a_node_without_nft_is_told_what_to_do(
    walls: ModuleType, commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (commands / "nft").exists()
    monkeypatch.setattr("sys.argv", ["job_walls.py", "check"])
    assert walls.main() == 1
    said = capsys.readouterr().err
    assert said == (
        "the walls around jobs cannot be set up: there is no nft; use an image with the package nftables and a kernel "
        "that supports it, or set slurm.job_walls to false\n"
    )


def test_nodes_controllers_and_ports_are_those_of_slurms_configuration(
    walls: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walls, "hostnames", lambda ranges: [f"{ranges}:{number}" for number in (1, 2)])
    (tmp_path / "slurm.conf").write_text("""
SlurmctldHost=ip-10-1-0-9(10.1.0.9)
slurmctldhost = backup
SlurmctldPort=6817
SlurmdPort=6820
NodeName=DEFAULT CPUs=2
NodeName=ip-10-1-2-[3-4] NodeAddr=10.1.2.[3-4] NodeHostname=ip-10-1-2-[3-4] State=CLOUD Port=7000
Include nodes.conf
PartitionName=train Nodes=n[1-2]
SrunPortRange=50000-50100
""")
    (tmp_path / "nodes.conf").write_text("nodename=n[1-2] CPUs=2\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert walls.read_cluster(walls.configuration()) == walls.SlurmHosts(
        {
            "ip-10-1-2-[3-4]:1": "10.1.2.[3-4]:1",
            "ip-10-1-2-[3-4]:2": "10.1.2.[3-4]:2",
            "n[1-2]:1": "n[1-2]:1",
            "n[1-2]:2": "n[1-2]:2",
        },
        ["10.1.0.9", "backup"],
        ["6820", "7000"],
        "50000-50100",
    )
    # A controller that was created earlier has no range.
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert walls.read_cluster("") == walls.SlurmHosts({}, [], ["6818"], f"{low}-{high}")
