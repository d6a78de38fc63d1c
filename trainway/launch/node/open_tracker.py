"""Open the run of a program in a tracker, with the tracker's own package, before the program starts:

    python3 open_tracker.py mlflow|wandb|comet FILE

The launcher sends this file to the node beside the starter of a program that has trackers. The variables of the package
name the run, and an earlier attempt may have created it. What the package prints is in FILE. This process prints a JSON
object: `variables` for the program, or the `reason` for which the tracker does not work. `installed` is false if this
Python has no package of the tracker.
"""

import json
import os
import sys
from typing import Any

# The server chooses the ID of a run. A tag finds the run of an earlier attempt.
_TAG = "trainway.run"


def open_mlflow() -> "dict[str, str]":
    """Return the ID of the run that an earlier attempt created, or of a new one."""
    from mlflow import MlflowClient  # type: ignore[import-not-found,unused-ignore]

    client, name, run = MlflowClient(), os.environ["MLFLOW_EXPERIMENT_NAME"], os.environ["TRAINWAY_RUN_NAME"]
    if "MLFLOW_RUN_ID" in os.environ:  # the job file has it
        client.get_run(os.environ["MLFLOW_RUN_ID"])
        return {}
    experiment = client.get_experiment_by_name(name)
    where = experiment.experiment_id if experiment else client.create_experiment(name)
    found = client.search_runs([where], f"tags.`{_TAG}` = '{run}'", max_results=1)
    opened = found[0] if found else client.create_run(where, tags={_TAG: run}, run_name=run)
    return {"MLFLOW_RUN_ID": opened.info.run_id}


def open_wandb() -> "dict[str, str]":
    """Create or resume the run, and leave it to the program."""
    # https://docs.wandb.ai/models/track/environment-variables (read 2026-11-27)
    os.environ.update(WANDB_DISABLE_GIT="true", WANDB_DISABLE_CODE="true", WANDB_CONSOLE="off")
    import wandb  # type: ignore[import-not-found,unused-ignore]

    wandb.init(settings=wandb.Settings(x_disable_stats=True, x_disable_meta=True, init_timeout=30)).finish()
    return {}


def open_comet() -> "dict[str, str]":
    """Create or resume the experiment, and leave it to the program."""
    import comet_ml  # type: ignore[import-not-found,unused-ignore]

    nothing = comet_ml.ExperimentConfig(
        log_code=False,
        log_git_metadata=False,
        log_git_patch=False,
        auto_output_logging=False,  # type: ignore[arg-type]  # its type lacks the value that turns it off
        log_env_details=False,
    )
    comet_ml.start(experiment_config=nothing).end()
    return {}


def main(tracker: str, log: str) -> None:
    """Open the run, and print what came of it."""
    answer = os.fdopen(os.dup(1), "w")
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    found: dict[str, Any] = {"installed": True}
    try:
        found["variables"] = {"mlflow": open_mlflow, "wandb": open_wandb, "comet": open_comet}[tracker]()
    except ImportError as error:
        found.update(installed=False, reason=str(error))
    except Exception as error:  # whatever the package raises, the program starts
        found["reason"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    answer.write(json.dumps(found))
    answer.close()
    sys.stdout.flush()
    # The threads of a package may still try to reach a server.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
