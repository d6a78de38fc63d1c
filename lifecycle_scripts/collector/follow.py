"""Apply what is scraped, and list the nodes for it: `follow.py DOCUMENT DIRECTORY HEAD...`, as root on the controller.

DOCUMENT is the configuration of Prometheus as JSON, which is YAML, too. HEAD is ROLE=NAME=ADDRESS of a node that Slurm
does not list: the controller or a login node. DIRECTORY gets `prometheus.json` and `targets.json`, in the form of
file_sd_configs, which Prometheus reads again when it changes. Every node has one target, with its name, its role, and
its partitions between commas. The last line of the output is `nothing` if the document collects nothing, `changed` if
the configuration has changed, or `same`.

https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config (read 2026-11-27)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Time limit of sinfo, in seconds.
SECONDS = 20
ScrapeTarget = dict[str, Any]


def main() -> int:
    document, directory = map(Path, sys.argv[1:3])
    heads = [tuple(head.split("=")) for head in sys.argv[3:]]
    try:
        configuration = json.loads(document.read_text())
        if not configuration.get("remote_write"):
            print("nothing")
            return 0
        listed = directory / "targets.json"
        write(listed, [*(target(*head) for head in heads), *compute_nodes(listed)])
        print("changed" if write(directory / "prometheus.json", configuration) else "same")
    except (OSError, ValueError, TypeError) as problem:
        print(f"[collector] what is scraped cannot be applied: {problem}", file=sys.stderr)
        return 1
    return 0


def target(role: str, name: str, address: str, partitions: Iterable[str] = ()) -> ScrapeTarget:
    """Return the Prometheus target of a node. The scrape jobs add their ports, and select nodes by the labels."""
    labels = {"__meta_role": role, "__meta_name": name, "__meta_partitions": f",{','.join(sorted(partitions))},"}
    return {"targets": [address], "labels": labels}


def compute_nodes(listed: Path) -> list[ScrapeTarget]:
    """Return the nodes that `sinfo` lists. If Slurm does not answer, return the nodes of the existing file."""
    try:
        return of_lines(sinfo())
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"[collector] Slurm does not list its nodes, so they stay as they were: {problem}", file=sys.stderr)
    known = json.loads(listed.read_text()) if listed.exists() else []
    return [each for each in known if each["labels"]["__meta_role"] == "compute"]


def sinfo() -> list[str]:
    """Return a line `name|address|partition` for each node and partition. Raises OSError or SubprocessError.

    https://slurm.schedmd.com/sinfo.html (read 2026-11-27)
    """
    path = f"/opt/slurm/bin:{os.environ.get('PATH', '/usr/bin:/bin')}"
    command = ["env", "sinfo", "--all", "--noheader", "--Node", "--format=%N|%o|%R"]
    environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout.splitlines()


def of_lines(lines: Iterable[str]) -> list[ScrapeTarget]:
    """Return the targets of sinfo's lines, one for each node."""
    partitions: dict[tuple[str, str], set[str]] = {}
    for line in lines:
        name, address, partition = line.split("|")
        partitions.setdefault((name, address), set()).add(partition)
    return [target("compute", name, address, found) for (name, address), found in sorted(partitions.items())]


def write(path: Path, value: Any) -> bool:
    """Write a value as JSON, completely or not at all. Return whether it has changed."""
    text = json.dumps(value, indent=1) + "\n"
    if path.exists() and path.read_text() == text:
        return False
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)
    return True


if __name__ == "__main__":
    sys.exit(main())
