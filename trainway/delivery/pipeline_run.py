"""Starting a delivery pipeline, and following a run of it to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from trainway.delivery.tell_failure import builds_of, failure_of, reasons
from trainway.spec.errors import UsageError, usage_error

MakeClient = Callable[[str], Any]
SECONDS_BETWEEN: Final = 10
RUNNING: Final = ("InProgress", "Stopping")


@dataclass(frozen=True)
class PipelineRun:
    """A run of a pipeline: its execution's ID, CodePipeline's status, its start, and why each failed action failed."""

    pipeline: str
    run: str
    status: str
    started: datetime
    reasons: tuple[str, ...] = ()


def last_run(client: MakeClient, pipeline: str) -> PipelineRun | None:
    """Return the last run of a pipeline, or None if it has none. Raises UsageError if AWS refuses."""
    executions = _asked(pipeline, lambda: client("codepipeline").list_pipeline_executions(pipelineName=pipeline))
    if not executions["pipelineExecutionSummaries"]:
        return None
    latest = executions["pipelineExecutionSummaries"][0]
    run, status = latest["pipelineExecutionId"], latest["status"]
    # A failed stage that CodePipeline retries in a moment may be among them. Whoever asks once does not wait for that.
    stage = failure_of(client, pipeline, run, lambda: None) if status == "Failed" else None
    return PipelineRun(
        pipeline, run, status, latest["startTime"], tuple(reasons(client, stage).values()) if stage else ()
    )


def run_as_json(run: PipelineRun | None) -> dict[str, Any] | None:
    """Return what `--json` prints of a run."""
    return asdict(run) | {"started": run.started.isoformat()} if run else None


def start(client: MakeClient, pipeline: str, variables: dict[str, str]) -> str:
    """Start a pipeline on its deployed source and return the ID of the execution. Raises UsageError if AWS refuses."""
    given = [{"name": name, "value": value} for name, value in variables.items()]
    arguments: dict[str, Any] = {"name": pipeline, **({"variables": given} if given else {})}
    answer = _asked(pipeline, lambda: client("codepipeline").start_pipeline_execution(**arguments))
    return str(answer["pipelineExecutionId"])


def follow(client: MakeClient, pipeline: str, run: str, say: Callable[[str], None]) -> None:
    """Wait for the end of a run and say each phase that it enters.

    Raises UsageError with the phase and the reason if the run fails, and if it is stopped or another run takes its
    place.
    """
    shown = set[str]()
    while True:
        status = _status(client, pipeline, run)
        for line in _phases(client, pipeline, run):
            if line not in shown:
                shown.add(line)
                say(line)
        if status == "Succeeded":
            return
        if status == "Failed":
            stage = failure_of(client, pipeline, run, lambda: time.sleep(SECONDS_BETWEEN))
            if stage is not None:
                why = "\n".join(reasons(client, stage).values()) or "CodePipeline gives no reason"
                raise usage_error(
                    f"the pipeline {pipeline} failed",
                    why=why,
                    fix="`trainway image log` has the whole log of the build",
                )
        elif status not in RUNNING:
            fix = "start it again with `trainway image build`"
            raise usage_error(f"the pipeline {pipeline} did not end", why=f"its run is {status}", fix=fix)
        time.sleep(SECONDS_BETWEEN)


def log_lines(client: MakeClient, pipeline: str, *, follows: bool) -> Iterator[str]:
    """Yield the lines of the log of a pipeline's last build; with `follows`, until the build ends.

    Raises UsageError if no build of the last run has a log.
    """
    while True:
        build = _last_build(client, pipeline)
        logs = (build or {}).get("logs", {})
        if logs.get("streamName"):
            break
        if not follows or build is None or build.get("buildComplete"):
            why = "the last run started no build" if build is None else "its last build ended before its script ran"
            raise usage_error(f"{pipeline} has no log", why=why, fix="`trainway image status` shows the reason")
        time.sleep(SECONDS_BETWEEN)
    names, token = {"logGroupName": logs["groupName"], "logStreamName": logs["streamName"]}, ""
    while True:
        more = {"nextToken": token} if token else {}
        answer = client("logs").get_log_events(**names, startFromHead=True, **more)
        yield from (event["message"].rstrip("\n") for event in answer["events"])
        if answer["nextForwardToken"] != token:
            token = answer["nextForwardToken"]
            continue
        ended = (_last_build(client, pipeline) or {}).get("buildComplete", True)
        if not follows or ended:
            return
        time.sleep(SECONDS_BETWEEN)


def watch(client: MakeClient, pipelines: Sequence[str], say: Callable[[str], None]) -> None:
    """Say why a run of the pipelines failed, for each run that starts after the call. It ends when it is interrupted.

    A pipeline that does not exist yet, or that AWS refuses to show, is looked at again.
    """
    began, said = datetime.now(UTC), set[str]()
    while True:
        for pipeline in pipelines:
            try:
                run = last_run(client, pipeline)
            except UsageError:
                continue
            if run and run.reasons and run.started >= began and run.run not in said:
                said.add(run.run)
                for reason in run.reasons:
                    say(f"the pipeline {pipeline} failed: {reason}")
        time.sleep(SECONDS_BETWEEN)


def _status(client: MakeClient, pipeline: str, run: str) -> str:
    executions = _asked(pipeline, lambda: client("codepipeline").list_pipeline_executions(pipelineName=pipeline))
    found = [each for each in executions["pipelineExecutionSummaries"] if each["pipelineExecutionId"] == run]
    return str(found[0]["status"]) if found else "InProgress"


def _phases(client: MakeClient, pipeline: str, run: str) -> Iterator[str]:
    """Yield a line for each action of a run that has begun, with the phase of its build."""
    for stage in client("codepipeline").get_pipeline_state(name=pipeline)["stageStates"]:
        if stage.get("latestExecution", {}).get("pipelineExecutionId") != run:
            continue
        begun = [each for each in stage["actionStates"] if "latestExecution" in each]
        builds = builds_of(client, begun)
        second = " (second attempt)" if stage.get("retryStageMetadata", {}).get("autoStageRetryAttempt") else ""
        for action in begun:
            name = action["actionName"]
            phase = builds[name].get("currentPhase", "") if name in builds else ""
            parts = (f"{stage['stageName']}/{name}{second}:", phase, action["latestExecution"]["status"])
            yield " ".join(part for part in parts if part)


def _last_build(client: MakeClient, pipeline: str) -> dict[str, Any] | None:
    state = _asked(pipeline, lambda: client("codepipeline").get_pipeline_state(name=pipeline))
    begun = [each for stage in state["stageStates"] for each in stage["actionStates"] if "latestExecution" in each]
    builds = list(builds_of(client, begun).values())
    return builds[-1] if builds else None


def _asked(pipeline: str, call: Callable[[], Any]) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except ClientError as error:
        why, absent = error.response["Error"]["Message"], error.response["Error"]["Code"] == "PipelineNotFoundException"
        fix = "`make deploy` deploys it" if absent else f"you need codepipeline:{error.operation_name} on {pipeline}"
        raise usage_error(f"the pipeline {pipeline} cannot be asked", why=why, fix=fix) from None
    except BotoCoreError as error:
        fix = "`aws sts get-caller-identity` shows whether this shell has credentials"
        raise usage_error(f"the pipeline {pipeline} cannot be asked", why=str(error), fix=fix) from None
