"""The end of a Ray job whose program fails for good: Ray's own stop, after which KubeRay does not start the job again.

KubeRay starts a RayJob again after any failure of its driver, with a new cluster. A job that was stopped in Ray is
complete to it. `trainway status` then shows the failure that the driver has written.
https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayjob_controller.go
(checkBackoffLimitAndUpdateStatusIfNeeded, read 2026-11-24)
"""

import json
import os
import subprocess
import sys

# Ray tells the driver of a job so: ray/_private/runtime_env/constants.py and _get_driver_env_vars in
# ray/dashboard/modules/job/job_supervisor.py of Ray 2.60.
_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# The dashboard of the head. trainway/launch/kubernetes/ray_job.py does not change its port.
_DASHBOARD = "http://127.0.0.1:8265"
_LONGEST_STOP_SECONDS = 60


def ray_job() -> "str | None":
    """Return the Ray job whose driver this process is, or None."""
    try:
        return str(json.loads(os.environ.get(_CONFIG, "{}"))["metadata"]["job_submission_id"])
    except (KeyError, TypeError, ValueError):
        return None


def end_ray_job() -> None:
    """Stop the Ray job whose driver this process is. Do nothing in any other process.

    Ray decides by the request that the job was stopped, whatever the exit status of the driver is after it. A failure
    is printed, and KubeRay starts the job again.
    """
    job = ray_job()
    if job is None:
        return
    # Ray's command takes the address from this variable before it takes that of the cluster.
    environment = {"RAY_API_SERVER_ADDRESS": _DASHBOARD, **os.environ}
    try:
        done = subprocess.run(
            ["ray", "job", "stop", "--no-wait", job],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST_STOP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        _report(str(problem))
    else:
        # Ray ends all processes of the driver, this command among them.
        if done.returncode > 0:
            _report(done.stdout.strip().rpartition("\n")[2])


def _report(why: str) -> None:
    print(f"trainway: the Ray job cannot be stopped, and will start again: {why}", file=sys.stderr, flush=True)
