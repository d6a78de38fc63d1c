"""What a node has beside its jobs: limits that are in force, metrics that can be scraped, and words for who logs in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle_scripts.nodes import DOWNLOADED, Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import run_step

if TYPE_CHECKING:
    from prometheus_client import Metric

DOCS = Path(__file__).resolve().parents[2] / "docs" / "node-metrics.md"
WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

# The team's own scripts, of which each does something else.
CUSTOM = {
    "10-first.sh": 'echo "$NODE_ROLE of $CLUSTER_NAME"; echo first >>/root/order',
    "20-fails.sh": "echo the license server is away; exit 7",
    "30-hangs.sh": "# limit: 1 s\n(setsid sleep 98765 &)\nsleep 98765",
    "40-last.py": 'import os\nprint("on", os.environ["NODE_NAME"])\nopen("/root/order", "a").write("last\\n")',
    "notes.sh": "echo never",
}

FILES = "[Manager]\nDefaultLimitMEMLOCK=infinity\nDefaultLimitNOFILE=1048576\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and a compute node, provisioned with scripts of the team's, and a node that nobody has touched."""
    groups = {"controller": ["ctl"], "train": ["n1", "fresh"]}
    with nodes(tmp_path_factory.mktemp("lab"), groups, parameters={"exporters": True}) as made:
        for name, body in CUSTOM.items():
            made["n1"].write(f"{DOWNLOADED}/yours/custom.d/{name}", body)
        for name, done in made.provision("ctl", "n1").items():
            made[name].write("/root/provisioned", done.stdout)
            assert done.returncode == 0, done.stdout
        yield made


def provisioned(node: Node) -> list[str]:
    return (node.root / "root/provisioned").read_text().splitlines()


def state(node: Node) -> dict[str, Any]:
    return json.loads((node.root / "var/lib/trainway/provisioning.json").read_text())


def limits(node: Node, process: str) -> dict[str, tuple[str, str]]:
    """Soft and hard, by name."""
    lines = node.run("cat", f"/proc/{process}/limits").stdout.splitlines()[1:]
    return {line[:26].strip(): (line[26:47].strip(), line[47:68].strip()) for line in lines}


@pytest.mark.exhaustive
def test_who_logs_in_and_what_systemd_starts_may_have_all_that_the_kernel_allows(lab: Lab) -> None:
    """Here the kernel allows less than is asked for: it shows in the soft limit, which is as high as the hard."""
    fresh, node = lab["fresh"], lab["n1"]
    service = ("systemd-run", "--quiet", "--wait", "--pipe", "bash", "-c", "ulimit -Sn; ulimit -Hn")
    soft, hard = fresh.run(*service).stdout.split()
    assert int(soft) < int(hard)
    soft, hard = node.run(*service).stdout.split()
    assert soft == hard
    slurmd = node.run("pgrep", "-xo", "slurmd").stdout.strip()
    for name in ("Max open files", "Max locked memory"):
        assert limits(node, slurmd)[name][0] == limits(node, "1")[name][1]
    wanted = node.run("systemctl", "show", "slurmd", "--property=LimitMEMLOCK,LimitNOFILE,LimitSTACK").stdout
    assert set(wanted.split()) == {"LimitMEMLOCK=infinity", "LimitNOFILE=1048576", "LimitSTACK=infinity"}
    assert "soft memlock unlimited" in (node.root / "etc/security/limits.d/90-trainway.conf").read_text()


def test_a_job_has_slurmds_limits(lab: Lab) -> None:
    done = lab["ctl"].run("srun", "--propagate=NONE", "bash", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Ss")
    soft, hard, stack = done.stdout.split()
    assert (soft == hard, stack) == (True, "unlimited")


def test_a_daemon_that_ran_before_its_limits_is_named(lab: Lab) -> None:
    fresh = lab["fresh"]
    fresh.run("cp", "/bin/sleep", "/usr/local/bin/containerd")
    fresh.run(
        "systemd-run", "--quiet", "--unit=old", "--property=LimitMEMLOCK=65536", "/usr/local/bin/containerd", "600"
    )
    done = run_step(fresh, "10-limits")
    assert done.returncode == 0
    assert "WARNING: containerd (process " in done.stdout and "restart it" in done.stdout
    fresh.run("systemctl", "stop", "old")


def test_kernel_settings_are_in_effect_and_only_ever_raised(lab: Lab) -> None:
    fresh = lab["fresh"]
    assert "WARNING: net.core.somaxconn is 4096 and cannot be set to 65535" in run_step(fresh, "10-limits").stdout
    # A container sees its kernel read-only; its network is its own.
    fresh.run("mount", "--bind", "/proc/sys/net", "/proc/sys/net")
    fresh.run("mount", "-o", "remount,bind,rw", "/proc/sys/net")
    backlog = "/proc/sys/net/ipv4/tcp_max_syn_backlog"
    fresh.run("bash", "-c", f"echo 70000 >{backlog}")
    done = run_step(fresh, "10-limits")
    assert "set net.core.somaxconn to 65535" in done.stdout
    assert fresh.run("cat", "/proc/sys/net/core/somaxconn", backlog).stdout.split() == ["65535", "70000"]
    kept = (fresh.root / "etc/sysctl.d/90-trainway.conf").read_text().splitlines()
    assert kept == ["-net.core.somaxconn = 65535", "-net.ipv4.tcp_max_syn_backlog = 70000"]
    assert run_step(fresh, "10-limits").stdout.splitlines()[-1] == "limits are as they should be"
    # What a restart does.
    fresh.run("bash", "-c", "echo 128 >/proc/sys/net/core/somaxconn; /usr/lib/systemd/systemd-sysctl")
    assert fresh.run("cat", "/proc/sys/net/core/somaxconn").stdout.strip() == "65535"


def scrape(scraper: Node, node: Node, port: int) -> dict[str, Metric]:
    """The families that one node reads from another."""
    from prometheus_client.parser import text_string_to_metric_families

    program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=300).read().decode(), end='')"
    text = scraper.run("python3", "-c", program, f"http://{node.address}:{port}/metrics").stdout
    return {family.name: family for family in text_string_to_metric_families(text)}


def forgetful(ctl: Node) -> Node:
    """The controller, whose exporter of Slurm has no answer that it would give again."""
    ctl.run("systemctl", "restart", "trainway-exporter@slurm")
    ctl.run("bash", "-c", f"until (</dev/tcp/{ctl.address}/9341) 2>/dev/null; do sleep 0.1; done", timeout=300)
    return ctl


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    [sample] = [each for each in families[name].samples if each.labels == labels]
    return sample.value


def test_another_node_scrapes_what_slurm_does(lab: Lab) -> None:
    ctl = lab["ctl"]
    job = ctl.run("sbatch", "--parsable", "--hold", "--wrap=true", "--output=/dev/null").stdout.strip()
    found = scrape(lab["n1"], forgetful(ctl), 9341)
    ctl.run("scancel", job)
    assert value(found, "slurm_jobs_pending") == 1
    assert value(found, "slurm_partition_jobs_pending", partition="train") == 1
    assert value(found, "slurm_nodes_idle", partition="train") == 1
    assert (
        value(found, "slurm_nodes_down", partition="train") + value(found, "slurm_nodes_idle", partition="train") <= 2
    )
    assert value(found, "slurm_node_status", node=lab["n1"].hostname, status="idle", partition="train") == 1
    assert value(found, "slurm_cpus_total") >= 1
    assert value(found, "slurm_scheduler_threads") >= 1
    assert value(found, "trainway_collector_success", collector="slurm") == 1


def test_a_slurmctld_that_does_not_answer_is_a_metric_and_not_a_silence(lab: Lab) -> None:
    ctl = forgetful(lab["ctl"])
    ctl.run("pkill", "-STOP", "-x", "slurmctld")
    try:
        found = scrape(lab["n1"], ctl, 9341)
    finally:
        ctl.run("pkill", "-CONT", "-x", "slurmctld")
    assert value(found, "trainway_collector_success", collector="slurm") == 0
    assert "slurm_jobs_pending" not in found


def test_linux_metrics_are_those_of_node_exporter_by_the_names_of_the_docs(lab: Lab) -> None:
    found = scrape(lab["ctl"], lab["n1"], 9100)
    names = {sample.name for family in found.values() for sample in family.samples}
    row = next(line for line in DOCS.read_text().splitlines() if line.startswith("| 9100 |") and "node_cpu" in line)
    documented = {
        *re.findall(r"`(node_\w+)`", row),
        *re.findall(r"\((node_\w+)\[", DOCS.read_text()),
        *(f"node_memory_{name}_bytes" for name in ("MemTotal", "MemAvailable")),
    }
    assert len(documented) >= 9
    # EFA's counters have an exporter of their own.
    assert {name for name in documented if "amazonefa" not in name} <= names
    assert value(found, "node_network_receive_bytes", device="eth0") > 0
    types = {sample.labels["fstype"] for sample in found["node_filesystem_avail_bytes"].samples}
    assert types and not types & {"lustre", "nfs", "nfs4", "overlay"}


def test_a_delivered_node_exporter_is_the_one_that_runs(lab: Lab) -> None:
    """The program of the package alone, from a package made of the image's; one that was changed is not installed."""
    fresh, packages = lab["fresh"], f"{DOWNLOADED}/yours/packages"
    make = f"""
cd "$(mktemp -d)"
mkdir -p package/DEBIAN package/usr/bin {packages}/exporters/bookworm
cp /usr/bin/prometheus-node-exporter package/usr/bin/
printf '%s\\n' 'Package: prometheus-node-exporter' 'Version: 9' "Architecture: $(dpkg --print-architecture)" \\
  'Maintainer: a <a@b>' 'Description: x' >package/DEBIAN/control
dpkg-deb --build -Znone package {packages}/exporters/bookworm/prometheus-node-exporter_9_amd64.deb
cd {packages} && sha256sum exporters/bookworm/* >SHA256SUMS
"""
    fresh.run("bash", "-ec", make)
    running = "readlink /proc/$(systemctl show --value --property=MainPID trainway-exporter@node)/exe"
    try:
        assert "node:9100" in run_step(fresh, "50-exporters").stdout
        assert fresh.run("bash", "-c", running).stdout == "/opt/trainway/exporters/node_exporter\n"
        fresh.run("rm", "/opt/trainway/exporters/node_exporter")
        fresh.run("bash", "-c", f"echo changed >>{packages}/exporters/bookworm/prometheus-node-exporter_9_amd64.deb")
        done = run_step(fresh, "50-exporters")
        assert "WARNING: prometheus-node-exporter_9_amd64.deb is not what was delivered: deploy" in done.stdout
        assert fresh.run("bash", "-c", running).stdout == "/usr/bin/prometheus-node-exporter\n"
    finally:
        fresh.run("rm", "-r", packages)


def test_a_node_without_node_exporter_says_so(lab: Lab) -> None:
    fresh = lab["fresh"]
    fresh.run("mv", "/usr/bin/prometheus-node-exporter", "/root/")
    try:
        done = run_step(fresh, "50-exporters")
    finally:
        fresh.run("mv", "/root/prometheus-node-exporter", "/usr/bin/")
    assert done.returncode == 0
    assert "WARNING: no node_exporter was delivered for this node's release and processor" in done.stdout
    assert done.stdout.splitlines()[-1] == f"metrics are at {fresh.address}: none"


def test_exporters_run_as_nobody_and_can_change_nothing(lab: Lab) -> None:
    node = lab["n1"]
    main = node.run("systemctl", "show", "--value", "--property=MainPID", "trainway-exporter@node").stdout.strip()
    lines = node.run("cat", f"/proc/{main}/status").stdout.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if "\t" in line)
    assert int(status["Uid"].split()[0]) >= 61184  # systemd's range for dynamic users
    assert int(status["CapEff"], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    listening = node.run("ss", "-Hltn", "sport", "=", ":9100").stdout.split()
    assert f"{node.address}:9100" in listening


def test_a_port_that_somebody_else_has_costs_the_metrics_and_not_the_node(lab: Lab) -> None:
    fresh = lab["fresh"]
    fresh.run("systemctl", "stop", "trainway-exporter@node")
    fresh.run("systemd-run", "--quiet", "--unit=other", "python3", "-m", "http.server", "9100")
    done = run_step(fresh, "50-exporters", EXPORTER_WAIT_SECONDS="2")
    fresh.run("systemctl", "stop", "other", "trainway-exporter@node")
    assert done.returncode == 0
    assert f"WARNING: the exporter of node does not answer on {fresh.address}:9100; `journalctl" in done.stdout


def test_an_exporter_runs_what_is_installed(lab: Lab) -> None:
    """Also when the step was killed after it had installed another."""
    fresh = lab["fresh"]
    run_step(fresh, "50-exporters")
    main = ("systemctl", "show", "--value", "--property=MainPID", "trainway-exporter@node")
    before = fresh.run(*main).stdout
    fresh.run("touch", "/opt/trainway/exporters/node.port")
    run_step(fresh, "50-exporters")
    assert fresh.run(*main).stdout != before


def test_limits_are_in_force_after_a_run_that_was_killed_before_systemd_read_them(lab: Lab) -> None:
    fresh = lab["fresh"]
    fresh.run("rm", "/etc/systemd/system.conf.d/90-trainway.conf")
    fresh.run("systemctl", "daemon-reexec")
    fresh.write("/etc/systemd/system.conf.d/90-trainway.conf", FILES)
    assert "wrote /etc/systemd" not in run_step(fresh, "10-limits").stdout
    assert fresh.run("systemctl", "show", "--value", "--property=DefaultLimitNOFILE").stdout.strip() == "1048576"


def test_exporters_can_be_switched_off_again(lab: Lab) -> None:
    fresh = lab["fresh"]
    assert "node:9100" in run_step(fresh, "50-exporters").stdout
    main = ("systemctl", "show", "--value", "--property=MainPID", "trainway-exporter@node")
    before = fresh.run(*main).stdout
    second = run_step(fresh, "50-exporters")
    assert (second.stdout, fresh.run(*main).stdout) == (f"metrics are at {fresh.address}: node:9100\n", before)
    done = run_step(fresh, "50-exporters", EXPORTERS="false")
    assert "switched off in the platform file (slurm.exporters)" in done.stdout
    listed = fresh.run("systemctl", "list-units", "--no-legend", "--plain", "--all", "trainway-exporter@*").stdout
    assert "running" not in listed


def login(node: Node, *, interactive: bool = True) -> str:
    """What `ubuntu` sees in a shell of that kind. That there is no terminal, it says on the other channel."""
    return node.run("su", "--login", "ubuntu", "-c", f"bash -{'i' if interactive else ''}lc true").stdout


def test_whoever_logs_in_is_told_what_to_do_next(lab: Lab) -> None:
    told = login(lab["ctl"])
    assert "atlas: controller node controller-1, ml.m5.xlarge" in told
    assert "of 1 nodes idle; 0 jobs run, 0 wait" in told
    assert "trainway launch job.yaml --target slurm" in told
    assert "/fsx     shared by all nodes" in told
    assert "this node runs jobs; submit them on a login node" in login(lab["n1"])


def test_a_program_that_logs_in_is_told_nothing(lab: Lab) -> None:
    assert login(lab["n1"], interactive=False) == ""
    lab["n1"].run("touch", "/home/ubuntu/.hushlogin")
    assert login(lab["n1"]) == ""
    lab["n1"].run("rm", "/home/ubuntu/.hushlogin")


def test_a_login_does_not_wait_for_slurm(lab: Lab) -> None:
    ctl = lab["ctl"]
    ctl.run("pkill", "-STOP", "-x", "slurmctld")
    try:
        told = login(ctl)
    finally:
        ctl.run("pkill", "-CONT", "-x", "slurmctld")
    assert "Slurm does not answer; `scontrol ping` says more" in told
    # A command of Slurm that never ends.
    ctl.write("/usr/local/bin/sinfo", "#!/bin/sh\nexec sleep infinity\n", 0o755)
    try:
        told = login(ctl)
    finally:
        ctl.run("rm", "/usr/local/bin/sinfo")
    assert "Slurm does not answer; `scontrol ping` says more" in told


def test_the_teams_own_scripts_run_in_order_and_cannot_break_the_rest(lab: Lab) -> None:
    node = lab["n1"]
    lines = [line for line in provisioned(node) if line.startswith("[90-custom]")]
    for line in (
        "[90-custom] [10-first.sh] compute of atlas",
        "[90-custom] 10-first.sh is done",
        "[90-custom] [20-fails.sh] the license server is away",
        "[90-custom] WARNING: 20-fails.sh ended with status 7; the lines after [20-fails.sh] say why",
        "[90-custom] WARNING: 30-hangs.sh ran past its limit of 1 s and was ended with all that it started",
        "[90-custom] [40-last.py] on train-1",
    ):
        assert line in lines
    assert not any("never" in line for line in lines)
    assert (node.root / "root/order").read_text().split() == ["first", "last"]
    assert "98765" not in node.run("pgrep", "-ax", "sleep", check=False).stdout
    known = state(node)
    assert known["status"] == "done"
    assert "90-custom: 20-fails.sh ended with status 7" in " ".join(known["warnings"])
    assert "WARNING  90-custom: 20-fails.sh ended with status 7" in login(node)


def test_a_script_that_a_node_must_have_fails_it(lab: Lab) -> None:
    fresh = lab["fresh"]
    fresh.write(f"{DOWNLOADED}/yours/custom.d/10-agent.required.sh", "echo the agent cannot be installed; exit 2")
    fresh.write(f"{DOWNLOADED}/yours/custom.d/20-later.sh", "echo never")
    done = run_step(fresh, "90-custom")
    fresh.run("bash", "-c", f"rm {DOWNLOADED}/yours/custom.d/*.sh")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == (
        "10-agent.required.sh ended with status 2; the lines after [10-agent.required.sh] say why: a node must not be "
        "without it; correct yours/custom.d/10-agent.required.sh and deploy again"
    )
    assert "never" not in done.stdout


@pytest.mark.parametrize("step", ["50-exporters", "60-motd", "90-custom"])
def test_what_does_not_apply_says_so(lab: Lab, step: str) -> None:
    done = run_step(lab["fresh"], step, ORCHESTRATOR="hyperpod-eks")
    assert (done.returncode, done.stdout.splitlines()[-1][-14:]) == (0, " nothing to do")


def test_no_file_of_the_scripts_is_read_from_where_they_were_downloaded(lab: Lab) -> None:
    """That folder is HyperPod's own; units and profiles have their programs below /opt/trainway."""
    for path in (lab["n1"].root / "etc").rglob("*trainway*"):
        if path.is_file():
            assert DOWNLOADED not in path.read_text(), path


def test_after_a_power_cut_all_of_it_is_there_again(lab: Lab) -> None:
    node = lab["n1"]
    node.cut_power()
    node.boot()
    node.run("bash", "-c", f"until (</dev/tcp/{node.address}/9100) 2>/dev/null; do sleep 0.1; done", timeout=300)
    assert value(scrape(lab["ctl"], node, 9100), "node_scrape_collector_success", collector="meminfo") == 1
    slurmd = node.run("bash", "-c", "until pgrep -xo slurmd; do sleep 0.1; done", timeout=300).stdout.strip()
    assert limits(node, slurmd)["Max open files"][0] == limits(node, "1")["Max open files"][1]
    assert "atlas: compute node train-1" in login(node)


@pytest.mark.exhaustive
def test_a_node_of_kubernetes_gets_limits_and_nothing_of_slurm(tmp_path: Path) -> None:
    kubernetes = {"orchestrator": "hyperpod-eks", "controller_group": None, "fsx": None}
    with nodes(tmp_path, {"train": ["n1"]}, parameters=kubernetes) as lab:
        first, before = lab["n1"].provision(), lab["n1"].snapshot(times=True)
        second, after = lab["n1"].provision(), lab["n1"].snapshot(times=True)
        assert (first.returncode, second.returncode) == (0, 0), first.stdout + second.stdout
        assert before == after
        assert "/etc/systemd/system.conf.d/90-trainway.conf" in after
        assert not [name for name in after if "slurmctld" in name or "munge" in name or "exporter" in name]
        assert lab.asked_outside() == []
