"""Directories of a container that belong to root, and the user that the job runs as.

SageMaker's agent makes /opt/ml and what is below it as root, and starts the container as the user of the image. So the
image starts as root. This process makes writable what the job writes to, and becomes the job's user for good.
"""

import contextlib
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from trainway.launch.node.exit_statuses import CannotStart

JOB_USER = 1000
"""User and group ID of the job, as on Kubernetes (trainway/launch/kubernetes/node_pod.py)."""


def become_job_user(directories: "Iterable[Path]", shared: "Iterable[Path]", user: int = JOB_USER) -> "dict[str, str]":
    """Give directories to the job's user, and become it. Return the variables of the environment that change.

    `directories` are made, and given with all that is in them. `shared` are only made writable for everybody, as /tmp
    is elsewhere. A process that is not root changes nothing.

    Raises CannotStart if the process is root, and cannot become the user.
    """
    if os.geteuid():
        return {}
    for directory in directories:
        # The root of a file system can be nobody in particular there, and then the directory is the user's own already.
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            # A run that is resumed has its own directory on Lustre already, with any number of files.
            if directory.stat().st_uid != user:
                _give(directory, user)
    for directory in shared:
        with contextlib.suppress(OSError):
            directory.chmod(0o1777)
    try:
        known = pwd.getpwuid(user)
        name, home = known.pw_name, known.pw_dir
    except KeyError:
        name, home = str(user), ""
    try:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    except OSError as error:
        raise CannotStart(f"user {user}: this process is root and cannot become the job's user: {error}") from error
    if not os.access(home, os.W_OK):
        home = "/tmp"
    return {"HOME": home, "USER": name, "LOGNAME": name}


def _give(directory: Path, user: int) -> None:
    for path in (directory, *directory.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
