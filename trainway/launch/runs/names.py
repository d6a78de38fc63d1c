"""Names that a person gives on the command line. Each is checked once, before anything is made of it."""

from __future__ import annotations

import hashlib
import re

from trainway.spec.errors import usage_error

# A JobSet's pods are called <run>-<job>-<index>-<pod>-<suffix> within the 63 characters of a DNS label (RFC 1123).
LONGEST_RUN_NAME = 42

_EVALUATION = "-step-"
_DIGITS_OF_STEP, _DIGITS_OF_DIGEST = 9, 6

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
# Debian's useradd takes these names (useradd(8), NAME_REGEX), and directories of users give names with dots and @.
_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*")


def is_run_name(name: str) -> bool:
    """Return whether a run on a platform can have a name: a DNS label of LONGEST_RUN_NAME characters."""
    return len(name) <= LONGEST_RUN_NAME and _LABEL.fullmatch(name) is not None


def check_run_name(name: str) -> str:
    """Return a name for a run on a platform. Raises UsageError if it is not a DNS label of LONGEST_RUN_NAME characters.

    It stands in batch scripts, paths, and names of objects.
    """
    if not is_run_name(name):
        raise usage_error(
            f"a run cannot be called {name!r}",
            why="its directory, its batch job, and objects of Kubernetes have the same name, which is a DNS label",
            fix=f"use up to {LONGEST_RUN_NAME} lower-case letters, digits and hyphens between them",
        )
    return name


def prefix_of_evaluations(run: str) -> str:
    """Return the prefix of the names of a run's evaluations. The step follows it.

    The prefix of a long name has a digest, so that two runs have two prefixes, and no name is too long.
    """
    longest = LONGEST_RUN_NAME - len(_EVALUATION) - _DIGITS_OF_STEP
    if len(run) > longest:
        digest = hashlib.sha256(run.encode()).hexdigest()[:_DIGITS_OF_DIGEST]
        run = f"{run[: longest - _DIGITS_OF_DIGEST - 1].rstrip('-')}-{digest}"
    return f"{run}{_EVALUATION}"


def check_directory_name(path: str) -> str:
    """Return the path of a local run's directory. Raises UsageError if it is empty or has control characters."""
    if not path.strip() or not path.isprintable():
        raise usage_error(
            f"a run cannot have the directory {path!r}",
            why="it has characters that a path in a log cannot show" if path.strip() else "it is empty",
            fix="name a directory, for example runs/first",
        )
    return path


def check_login_name(name: str) -> str:
    """Return a login name on a cluster. Raises UsageError for a name that no user of Linux has."""
    if not _LOGIN.fullmatch(name):
        raise usage_error(
            f"nobody is called {name!r} on a cluster",
            why="a login name begins with a letter and has letters, digits, dots, hyphens, @ and _",
            fix="give --user your login name there",
        )
    return name
