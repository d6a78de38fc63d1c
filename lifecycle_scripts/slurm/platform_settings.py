"""Prints what the platform adds to slurm.conf, as JSON: `platform_settings.py [FLAG] VERSION DIRECTORY`.

The parameters are read from standard input, as `node_facts.py --parameters` prints them. The flag `--without-settings`
leaves out `slurm.settings` of the platform file.

VERSION is Slurm's; DIRECTORY is where the scripts lie that slurmd runs, if it is too old to be brought them.
https://slurm.schedmd.com/slurm.conf.html (read 2026-11-22)
"""

import json
import re
import sys
from typing import Any

# Since then controllers bring the prolog and the epilog to the nodes, and one that HyperPod has just started has them
# before its lifecycle scripts have run: https://github.com/SchedMD/slurm/blob/master/CHANGELOG/slurm-23.11.md (read
# 2026-11-22)
BRINGS_SCRIPTS = (23, 11)
# Names of their own, beside slurm.conf.
PROLOG, EPILOG = "trainway-prolog.sh", "trainway-epilog.sh"


def settings(plan: dict[str, Any], version: str, directory: str) -> dict[str, str]:
    """Returns lines of slurm.conf by their keys; none where the platform has nothing to add."""
    found: dict[str, str] = {}
    flags = []
    if plan.get("health_checks"):
        release = tuple(map(int, re.findall(r"\d+", version)[:2]))
        brings = release >= BRINGS_SCRIPTS
        found |= {
            "Prolog": PROLOG if brings else f"{directory}/prolog.sh",
            "Epilog": EPILOG if brings else f"{directory}/epilog.sh",
            "HealthCheckProgram": f"{directory}/health.sh",
            "HealthCheckInterval": "300",
            # Not on all nodes in the same second.
            "HealthCheckNodeState": "ANY,CYCLE",
            # A job whose prolog failed on one node begins on others; otherwise it is held until somebody lets it go.
            "SchedulerParameters": "nohold_on_prolog_fail",
        }
        # On all of a job's nodes before it begins, and not on each when its first step comes.
        flags.append("Alloc")
    if plan.get("login_needs_job"):
        # https://slurm.schedmd.com/pam_slurm_adopt.html (read 2026-11-22)
        found |= {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup,task/affinity"}
        flags.append("Contain")
    if flags:
        found["PrologFlags"] = ",".join(flags)
    return found | dict(plan.get("settings") or {})


def main() -> None:
    *flags, version, directory = sys.argv[1:]
    plan = json.load(sys.stdin)["slurm"] or {}
    if flags == ["--without-settings"]:
        plan = plan | {"settings": {}}
    print(json.dumps(settings(plan, version, directory)))


if __name__ == "__main__":
    main()
