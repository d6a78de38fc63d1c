"""Print the platform's additions to slurm.conf as JSON: `platform_settings.py [FLAG…] VERSION DIRECTORY`.

It reads the parameters from standard input, as `node_facts.py --parameters` prints them. The flag `--without-settings`
leaves out `slurm.settings` of the platform file, and `--without-private-tmp` what Slurm has no plugin for.

VERSION is Slurm's. DIRECTORY has the scripts that slurmd runs if it is too old to receive them from the controller.
https://slurm.schedmd.com/slurm.conf.html (read 2026-11-22)
"""

import json
import re
import sys
from typing import Any

# Since this version, controllers send the prolog and the epilog to the nodes. A node that HyperPod has just started
# then has them before its lifecycle scripts have run:
# https://github.com/SchedMD/slurm/blob/master/CHANGELOG/slurm-23.11.md (read 2026-11-22)
BRINGS_SCRIPTS = (23, 11)
# Since this version, the key of the plugin for private directories has another name: the 25.11 release in
# https://github.com/SchedMD/slurm/blob/master/src/common/read_config.c (read 2026-11-25)
HAS_NAMESPACES = (25, 11)
# Unique names, because the files are beside slurm.conf.
PROLOG, EPILOG = "trainway-prolog.sh", "trainway-epilog.sh"
# The controller connects to srun, also in a job, and a firewall has to know where. Above the ports that Linux gives to
# programs, so that none of a job is among them. An srun takes 3, and 2 more for every 48 nodes.
# https://slurm.schedmd.com/network.html (read 2026-11-29)
SRUN_PORTS = "61000-65000"


def settings(plan: dict[str, Any], version: str, directory: str) -> dict[str, str]:
    """Return lines of slurm.conf by their keys. Empty if the platform has nothing to add."""
    found: dict[str, str] = {}
    flags = []
    release = tuple(map(int, re.findall(r"\d+", version)[:2]))
    # null: on nodes that can have them.
    walls = plan.get("job_walls", False) is not False
    if plan.get("health_checks") or walls:
        brings = release >= BRINGS_SCRIPTS
        found |= {
            "Prolog": PROLOG if brings else f"{directory}/prolog.sh",
            "Epilog": EPILOG if brings else f"{directory}/epilog.sh",
            # A job whose prolog failed on one node starts on others. Otherwise it is held until somebody releases it.
            "SchedulerParameters": "nohold_on_prolog_fail",
        }
        # Run the prolog on all of a job's nodes before it begins, not on each node at its first step.
        flags.append("Alloc")
    if walls:
        found["SrunPortRange"] = SRUN_PORTS
    if plan.get("health_checks"):
        found |= {
            "HealthCheckProgram": f"{directory}/health.sh",
            "HealthCheckInterval": "300",
            # Distribute the checks, so that not all nodes run them in the same second.
            "HealthCheckNodeState": "ANY,CYCLE",
        }
    if plan.get("login_needs_job"):
        # https://slurm.schedmd.com/pam_slurm_adopt.html (read 2026-11-22)
        found |= {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup,task/affinity"}
        flags.append("Contain")
    if plan.get("private_tmp"):
        # https://slurm.schedmd.com/job_container.conf.html (read 2026-11-25)
        new = release >= HAS_NAMESPACES
        found |= {"NamespaceType": "namespace/tmpfs"} if new else {"JobContainerType": "job_container/tmpfs"}
        flags.append("Contain")
    if flags:
        found["PrologFlags"] = ",".join(dict.fromkeys(flags))
    return found | dict(plan.get("settings") or {})


def main() -> None:
    *flags, version, directory = sys.argv[1:]
    plan = json.load(sys.stdin)["slurm"] or {}
    if "--without-settings" in flags:
        plan = plan | {"settings": {}}
    if "--without-private-tmp" in flags:
        plan = plan | {"private_tmp": False}
    print(json.dumps(settings(plan, version, directory)))


if __name__ == "__main__":
    main()
