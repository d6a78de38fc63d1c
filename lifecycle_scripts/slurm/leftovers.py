"""Remove what an ended job left on this node. Slurm's epilog runs this program as root.

Processes that left the job's cgroup still have its ID in their environment, and are killed. If no other job is on the
node and the user runs nothing else there, the user's files in shared memory and in /tmp are deleted as well: NCCL and
PyTorch leave files in /dev/shm when they are killed, until it is full. With `--all`, every process of the user is
killed if no other job is on the node, because only users with a job may use the node.
"""

import os
import re
import shutil
import signal
import sys
import syslog
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# User IDs below are the system's own. Jobs of such users are not cleaned up.
FIRST_USER = 1000
TEMPORARY_DIRECTORIES = ("/dev/shm", "/tmp", "/var/tmp")
END_SECONDS = 5.0
STEP = re.compile(r"slurmstepd: \[(\d+)")


def processes(user: int) -> Iterator[Path]:
    """Yield the directory in /proc of each process that a user owns."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and entry.stat().st_uid == user and is_alive(entry):
                yield entry


def is_alive(process: Path) -> bool:
    """Return whether a process is alive, and not only its exit status remains."""
    try:
        return "State:\tZ" not in (process / "status").read_text()
    except OSError:
        return False


def of_job(process: Path, job: str) -> bool:
    """Return whether the job started a process, by the process's initial environment."""
    try:
        return f"SLURM_JOB_ID={job}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def other_jobs(job: str) -> bool:
    """Return whether another job has a step here, by the name of slurmstepd, such as `slurmstepd: [17.batch]`."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (found := STEP.match((entry / "cmdline").read_text())) and found[1] != job:
                return True
    return False


def kill(found: list[Path]) -> list[Path]:
    """Kill processes. Return those that the kernel has not ended in time."""
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(int(process.name), signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while (left := list(filter(is_alive, found))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def remove_files(user: int) -> int:
    """Remove the user's files from the top of the temporary directories, and return their number."""
    removed = 0
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for directory in TEMPORARY_DIRECTORIES:
        for entry in os.scandir(directory):
            if any(mount == entry.path or mount.startswith(f"{entry.path}/") for mount in mounts):
                continue
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == user:
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        Path(entry.path).unlink()
                    removed += 1
    return removed


def main() -> int:
    job, user, everything = os.environ["SLURM_JOB_ID"], int(os.environ["SLURM_JOB_UID"]), "--all" in sys.argv[1:]
    if user < FIRST_USER:
        return 0
    alone = not other_jobs(job)
    found = [process for process in processes(user) if of_job(process, job) or (everything and alone)]
    left = kill(found)
    removed = remove_files(user) if alone and not list(processes(user)) else 0
    if found or removed:
        syslog.syslog(f"job {job} left {len(found)} processes and {removed} files on this node: gone")
    if left:
        # They wait for a device or a file system, and their GPU memory is not free. Slurm drains the node.
        names = ", ".join(process.name for process in left)
        syslog.syslog(syslog.LOG_ERR, f"processes {names} of job {job} cannot be killed: restart the node")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
