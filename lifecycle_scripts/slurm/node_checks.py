"""Check that this node can run jobs, and drain it if not: `node_checks.py prolog | health`, as root.

`node_checks.py drain REASON` drains it for another reason, unless it is drained already.

`node_checks.py expect INSTANCE_TYPE MOUNT_PATH` prints the expected devices and mounts, which the other two commands
read from expected.json beside this file. It reads the output of `node_facts.py --parameters` from standard input.

If a prolog fails, Slurm requeues the job and drains the node: https://slurm.schedmd.com/prolog_epilog.html (read
2026-11-22). This program drains the node first, with a reason that names the fault. Only a fault of this node alone
drains it. A file system that does not answer affects all nodes, and jobs wait for it as they do during a run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import syslog
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin"
EXPECTED = Path(__file__).with_name("expected.json")
# Xids of an unhealthy GPU, not of a faulty program: the causes in trainway/spec/facts/xids.yaml.
FATAL_XIDS = {48, 64, 74, 79, 94, 95, 119, 120, 121, 140}
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
ANSWER_SECONDS = 20.0
LUSTRE_SECONDS = 5.0
PROBE = Path("/run/trainway-lustre-probe")
# Limit for a disk's space and for its inodes.
FULL_PERCENT = 95
# Commands that make HyperPod replace or restart this instance:
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-replace-faulty-instance.html
# (read 2026-11-22)
REPLACE = "scontrol update node={node} state=fail reason=Action:Replace"
RESUME = "scontrol update node={node} state=resume"
REBOOT = "scontrol update node={node} state=fail reason=Action:Reboot"


class Fault(NamedTuple):
    """A fault, and the command or the action that fixes it."""

    what: str
    remedy: str


def expect(parameters: dict[str, Any], instance_type: str, mount_path: str) -> dict[str, Any]:
    """Return the expected devices of a node of the type. Empty for types that the platform does not know."""
    types = (parameters.get("slurm") or {}).get("instance_types") or {}
    facts = types.get(instance_type, {})
    return {"gres": facts.get("gres"), "efa": facts.get("efa", 0), "mount": mount_path}


def faults(expected: dict[str, Any]) -> list[Fault]:
    """Return all faults of this node."""
    gres = expected.get("gres")
    found = [*devices(gres), *efa(expected.get("efa", 0)), *mounted(expected.get("mount", "")), *disks()]
    if gres and gres["name"] == "gpu":
        found += [*nvidia_smi(gres["count"]), *xids()]
    return found


def devices(gres: dict[str, Any] | None) -> list[Fault]:
    """Return a fault for missing accelerator devices."""
    if not gres:
        return []
    first = Path(gres["device"])
    names = (each.name.removeprefix(first.name) for each in first.parent.glob(f"{first.name}[0-9]*"))
    there = [name for name in names if name.isdecimal()]
    if len(there) >= gres["count"]:
        return []
    return [Fault(f"{len(there)} of {gres['count']} devices {gres['device']}* are there", REPLACE)]


def nvidia_smi(count: int) -> list[Fault]:
    """Return a fault for GPUs that the driver does not report."""
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [Fault(f"nvidia-smi does not answer within {ANSWER_SECONDS:.0f} s", REBOOT)]
    there = sum(line.startswith("GPU-") for line in done.stdout.splitlines())
    if there >= count:
        return []
    said = " ".join((done.stdout + done.stderr).split())[-100:] if done.returncode else ""
    return [Fault(f"nvidia-smi has {there} of {count} GPUs{': ' if said else ''}{said}", REPLACE)]


def xids() -> list[Fault]:
    """Return a fault for GPU errors that the kernel has logged since it started. A restart clears them."""
    with suppress(OSError, subprocess.SubprocessError):
        log = subprocess.run(
            ["dmesg"], capture_output=True, text=True, errors="replace", timeout=10, check=False
        ).stdout
        found = {(int(number), bus) for bus, number in XID.findall(log) if int(number) in FATAL_XIDS}
        if found:
            what = ", ".join(f"{number} of {bus}" for number, bus in sorted(found))
            return [Fault(f"Xid {what} since the node started", REPLACE)]
    return []


def efa(count: int) -> list[Fault]:
    """Return a fault for EFA devices that the kernel does not have."""
    drivers = (device.resolve() for device in Path("/sys/class/infiniband").glob("*/device/driver"))
    there = sum(driver.name == "efa" for driver in drivers)
    return [] if there >= count else [Fault(f"{there} of {count} EFA devices are there", REPLACE)]


def mounted(path: str) -> list[Fault]:
    """Return a fault for a shared file system that is not mounted. If it does not answer, only log that."""
    if not path:
        return []
    points = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    if path not in points:
        return [Fault(f"{path} is not mounted", f"mount it on the node, then {RESUME}")]
    if not answers(path):
        syslog.syslog(syslog.LOG_WARNING, f"{path} does not answer within {LUSTRE_SECONDS:.0f} s; jobs wait for it")
    return []


def answers(path: str) -> bool:
    """Return whether a file system answers.

    A process that waits for a file system cannot be killed, so only one waits at a time.
    """
    with suppress(OSError, ValueError):
        if "stat" in Path(f"/proc/{int(PROBE.read_text())}/comm").read_text():
            return False
    nothing = subprocess.DEVNULL
    probe = subprocess.Popen(["stat", "--file-system", path], stdin=nothing, stdout=nothing, stderr=nothing)
    PROBE.write_text(str(probe.pid))
    try:
        return probe.wait(LUSTRE_SECONDS) == 0
    except subprocess.TimeoutExpired:
        probe.kill()
        return False


def disks() -> list[Fault]:
    """Return a fault for each local disk that is nearly full."""
    found = []
    for path in ("/", "/opt/dlami/nvme"):
        with suppress(OSError):
            status = os.statvfs(path)
            space = 100 - 100 * status.f_bavail // max(1, status.f_blocks)
            inodes = 100 - 100 * status.f_favail // status.f_files if status.f_files else 0
            if max(space, inodes) > FULL_PERCENT:
                what = f"{path} is {max(space, inodes)} % full" + (" of inodes" if inodes > space else "")
                found.append(Fault(what, f"delete what nobody needs, then {RESUME}"))
    return list(dict.fromkeys(found))


def drain(reason: str) -> None:
    """Drain the node, unless it is drained already with a reason of its own."""
    node = own_name()
    ask = ["sinfo", "--noheader", "--nodes", node, "--format=%T"]
    state = subprocess.run(ask, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False).stdout
    if any(word in state for word in ("drain", "down", "fail")):
        return
    command = ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"]
    subprocess.run(command, timeout=ANSWER_SECONDS, check=False)


def own_name() -> str:
    """Return the name of this node in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def main() -> int:
    os.environ["PATH"] = PATH
    if sys.argv[1] == "drain":
        drain(f"{sys.argv[2]} -> {RESUME.format(node=own_name())}")
        return 0
    if sys.argv[1] == "expect":
        instance_type, mount_path = sys.argv[2:]
        print(json.dumps(expect(json.load(sys.stdin), instance_type, mount_path)))
        return 0
    found = faults(json.loads(EXPECTED.read_text()))
    if not found:
        return 0
    node = own_name()
    reason = "; ".join(f"{fault.what} -> {fault.remedy.format(node=node)}" for fault in found)
    print(reason, file=sys.stderr)
    syslog.syslog(syslog.LOG_ERR, reason)
    with suppress(OSError, subprocess.SubprocessError):
        drain(reason)
    return 1 if sys.argv[1] == "prolog" else 0


if __name__ == "__main__":
    sys.exit(main())
