"""Write a part of the platform's settings to slurm.conf: `slurm_settings.py SLURM_CONF PART SETTINGS`.

A part, for example `teams`, is a block at the end of the file, between two lines that name it. SETTINGS is a JSON
object. An empty object removes the block. Lines above the blocks belong to others and stay. slurmctld is restarted
after a change. If it does not start, slurm.conf is restored, and the exit status is 1. A line is printed after a
change.
https://slurm.schedmd.com/slurm.conf.html (read 2026-11-22)

  SLURM_ANSWER_SECONDS   time limit of a Slurm command, and of slurmctld after its restart (default 60)
"""

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

ANSWER_SECONDS = float(os.environ.get("SLURM_ANSWER_SECONDS", "60"))
# Settings that are lists. Slurm uses only the last of two lines, so the entries above the block are repeated in it.
LISTS = ("AccountingStorageTRES", "LaunchParameters", "PrologFlags", "SchedulerParameters", "SlurmctldParameters")


class SettingsError(Exception):
    """slurmctld does not answer, or a Slurm command failed. The message says which."""


def begin(part: str) -> str:
    return f"# Begin of what Trainway writes for {part}: a change in here is lost."


def end(part: str) -> str:
    return f"# End of what Trainway writes for {part}."


def with_settings(text: str, part: str, settings: dict[str, str]) -> str:
    """Return slurm.conf with the part's settings at its end, where they take precedence, or without any.

    A setting that is already in effect above is not repeated, because Slurm reports every repeated key as an error.
    """
    block = re.compile(rf"\n*{re.escape(begin(part))}\n.*?{re.escape(end(part))}\n", re.DOTALL)
    rest = block.sub("\n", text).rstrip("\n") + "\n"
    wanted = {key: merged(in_force(rest, key), key, value) for key, value in settings.items()}
    lines = "".join(f"{key}={value}\n" for key, value in wanted.items() if value != in_force(rest, key))
    return f"{rest}\n{begin(part)}\n{lines}{end(part)}\n" if lines else rest


def in_force(text: str, key: str) -> "str | None":
    """Return the last value of a key in slurm.conf, or None if the key is absent."""
    values = re.findall(rf"^[ \t]*{key}[ \t]*=[ \t]*([^\s#]*)", text, re.MULTILINE | re.IGNORECASE)
    return str(values[-1]) if values else None


def merged(above: "str | None", key: str, value: str) -> str:
    """Return the value to set. The value of a list begins with the entries that slurm.conf has above."""
    if key not in LISTS or not above:
        return value
    return ",".join(dict.fromkeys([*above.split(","), *value.split(",")]))


def write(path: Path, text: str) -> None:
    """Replace the file's content atomically, keeping its owner and permissions."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    shutil.copymode(path, new)
    os.chown(new, path.stat().st_uid, path.stat().st_gid)
    new.replace(path)


def run(*command: str) -> str:
    """Return the output of the command. Raises `SettingsError` with its error message."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise SettingsError(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise SettingsError(f"{' '.join(command)}: no answer within {ANSWER_SECONDS:.0f} s") from error
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split())
        raise SettingsError(f"{' '.join(command)}: {said or f'status {done.returncode}'}")
    return done.stdout


def answers() -> bool:
    """Return whether this machine's slurmctld answers, and not only that of another controller."""
    try:
        lines = run("scontrol", "ping").splitlines()
    except SettingsError:
        return False
    host = socket.gethostname().partition(".")[0]
    own = [line for line in lines if f" at {host} " in line]
    return any(" UP" in line for line in own or lines)


def restart_controller() -> None:
    """Restart slurmctld, which does not affect jobs, and have every node read the settings. Raises `SettingsError`."""
    run("systemctl", "restart", "slurmctld")
    deadline = time.monotonic() + ANSWER_SECONDS
    while not answers():
        if time.monotonic() > deadline:
            raise SettingsError(f"slurmctld does not answer {ANSWER_SECONDS:.0f} s after its restart")
        time.sleep(0.5)
    run("scontrol", "reconfigure")


def change_settings(path: Path, part: str, settings: dict[str, str]) -> bool:
    """Change a part of slurm.conf, and return whether it changed. Raises `SettingsError`."""
    old = path.read_text()
    new = with_settings(old, part, settings)
    if new == old:
        return False
    write(path, new)
    try:
        restart_controller()
    except SettingsError as error:
        write(path, old)
        restart_controller()
        given = ", ".join(f"{key}={value}" for key, value in settings.items())
        raise SettingsError(f"{error}; {path} is as it was, without {given}") from error
    return True


def main() -> int:
    # A symbolic link stays one.
    path, part, settings = Path(sys.argv[1]).resolve(), sys.argv[2], json.loads(sys.argv[3])
    # The lock serializes changes of two parts.
    with Path("/run/lock/trainway-slurm-conf").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            changed = change_settings(path, part, settings)
        except (SettingsError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    if changed:
        print(f"changed {path} and restarted slurmctld")
    return 0


if __name__ == "__main__":
    sys.exit(main())
