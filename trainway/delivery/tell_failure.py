"""What a delivery pipeline failed of, and telling CloudFormation so.

The text of this file is also the script of the runbook that EventBridge starts when a pipeline has failed. There, only
the standard library and boto3 exist.
https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeScript.html (read 2026-11-23)
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

# A stage retries once, and begins with that at once: https://docs.aws.amazon.com/codepipeline/latest/userguide/stage-retry.html
# (read 2026-11-23). How soon is not written, so a stage that has not retried is looked at again.
LOOKS = 8
SECONDS_BETWEEN = 15
LAST_LINES = 15
# A signal holds 4,096 bytes, and a stack's events are read in a terminal.
REASON_CHARACTERS = 1500


def stage_of(state: Any, run: str) -> Any:
    """Return the stage of a GetPipelineState answer that failed in an execution, or None."""
    for stage in state["stageStates"]:
        latest = stage.get("latestExecution", {})
        if latest.get("pipelineExecutionId") == run and latest.get("status") == "Failed":
            return stage
    return None


def ended_well(state: Any, run: str) -> set[str]:
    """Return the actions of an execution that succeeded, whose scripts have told so."""
    stages = [
        each for each in state["stageStates"] if each.get("latestExecution", {}).get("pipelineExecutionId") == run
    ]
    actions = [action for stage in stages for action in stage["actionStates"]]
    return {each["actionName"] for each in actions if each.get("latestExecution", {}).get("status") == "Succeeded"}


def retried(stage: Any) -> bool:
    """Return whether CodePipeline has used the one automatic retry of a stage."""
    return bool(stage.get("retryStageMetadata", {}).get("autoStageRetryAttempt"))


def builds_of(client: Callable[[str], Any], actions: Any) -> dict[str, Any]:
    """Return the CodeBuild builds that the actions of a stage started, by the action's name."""
    ids = {
        action["actionName"]: action["latestExecution"]["externalExecutionId"]
        for action in actions
        if action.get("latestExecution", {}).get("externalExecutionId", "").count(":") == 1
    }
    if not ids:
        return {}
    builds = {build["id"]: build for build in client("codebuild").batch_get_builds(ids=list(ids.values()))["builds"]}
    return {name: builds[each] for name, each in ids.items() if each in builds}


def phase_of(build: Any) -> str:
    """Return the phase that a build failed in, with the reason that CodeBuild gives: `PROVISIONING: …`; "" if none."""
    for phase in build.get("phases", []):
        if phase.get("phaseStatus") in ("FAILED", "FAULT", "TIMED_OUT", "STOPPED"):
            parts = [" ".join(filter(None, (c.get("statusCode"), c.get("message")))) for c in phase.get("contexts", [])]
            said = "; ".join(part.strip() for part in parts if part.strip()) or phase["phaseStatus"]
            return f"{phase['phaseType']}: {said}"
    return ""


def last_lines(client: Callable[[str], Any], build: Any) -> str:
    """Return the end of a build's log, or "" if it has none."""
    logs = build.get("logs", {})
    if not logs.get("groupName") or not logs.get("streamName"):
        return ""
    try:
        events = client("logs").get_log_events(
            logGroupName=logs["groupName"], logStreamName=logs["streamName"], limit=LAST_LINES, startFromHead=False
        )["events"]
    except Exception as error:  # the reason must be told without the log, too
        return f"(its log could not be read: {error})"
    return "\n".join(event["message"].rstrip() for event in events)


def reasons(client: Callable[[str], Any], stage: Any) -> dict[str, str]:
    """Return why each failed action of a stage failed, by the action's name: its phase, and the end of its log."""
    actions = [each for each in stage["actionStates"] if each.get("latestExecution", {}).get("status") == "Failed"]
    builds = builds_of(client, actions)
    found = {}
    for action in actions:
        name, latest = action["actionName"], action["latestExecution"]
        build = builds.get(name)
        # Without a build, CodePipeline itself says why there is none: a quota, a role, a source.
        said = (build and phase_of(build)) or latest.get("errorDetails", {}).get("message") or latest.get("summary")
        head = f"{stage['stageName']}/{name}: {said or 'CodePipeline gives no reason'}"
        tail = last_lines(client, build) if build else ""
        found[name] = f"{head}\nLast lines of its log:\n{tail}" if tail else head
    return found


def failure_of(client: Callable[[str], Any], pipeline: str, run: str, wait: Callable[[], object]) -> Any:
    """Return the failed stage of a pipeline's execution, or None if it still runs, was retried, or did not fail.

    A stage whose retry has not begun is looked at again. `wait` is called between the looks.
    """
    stage = None
    for look in range(LOOKS):
        if look:
            wait()
        stage = stage_of(client("codepipeline").get_pipeline_state(name=pipeline), run)
        if stage is None or retried(stage):
            break
    return stage


def tell(url: str, name: str, reason: str) -> None:
    """Send CloudFormation the failure of a stage.

    The URL is signed for an empty Content-Type, which urllib would fill in.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html (read 2026-11-21)
    """
    shown = reason if len(reason) <= REASON_CHARACTERS else reason[:500] + "\n…\n" + reason[503 - REASON_CHARACTERS :]
    while len(json.dumps(shown)) > 3500:
        shown = shown[:-100]
    body = json.dumps({"Status": "FAILURE", "Reason": shown, "UniqueId": name, "Data": ""}).encode()
    request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})
    with urllib.request.urlopen(request, timeout=30):
        pass


def handler(events: Any, _context: Any) -> dict[str, str]:
    """Tell the wait conditions of a failed pipeline that its stages failed, and why.

    `events` has `pipeline` and `run`, and with `signals` the SSM parameter of each stage's URL by the action's name.
    Returns the reasons, by stage.
    """
    import boto3

    client: Any = boto3.client
    stage = failure_of(client, events["pipeline"], events["run"], lambda: time.sleep(SECONDS_BETWEEN))
    if stage is None:
        return {}
    found = reasons(client, stage)
    well = ended_well(client("codepipeline").get_pipeline_state(name=events["pipeline"]), events["run"])
    first = next(iter(found.values()), f"{stage['stageName']}: CodePipeline gives no reason")
    told = {}
    for action, parameter in events["signals"].items():
        if action in well:
            continue
        # One that never started waits for the one that failed.
        reason = f"pipeline {events['pipeline']}: {found.get(action, first)}"
        url = client("ssm").get_parameters(Names=[parameter])["Parameters"][0]["Value"]
        tell(url, action.lower(), reason)
        told[action] = reason
    return told
