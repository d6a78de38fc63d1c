"""Pipelines whose builds end as a test specifies, and the runbooks that EventBridge starts when a pipeline fails.

A pipeline runs when it is created, updated, or started, and its run is finished when the call returns. The API reports
its state, its builds, and their logs. Nothing is built: an action succeeds unless the test has set outcomes for it.
https://docs.aws.amazon.com/codepipeline/latest/userguide/stage-retry.html (read 2026-11-23)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import time
import uuid
from typing import Any

from emulator.errors import ResourceError
from emulator.registry.schema import Properties
from emulator.services.service import Aws, Service, ignoring
from emulator.services.wait import HANDLES

Json = dict[str, Any]
# The phases of a build up to its commands: BuildPhaseType in botocore's model of CodeBuild.
PHASES = ("SUBMITTED", "QUEUED", "PROVISIONING", "DOWNLOAD_SOURCE", "INSTALL", "PRE_BUILD", "BUILD")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_STATE_OF_A_FAILED_BUILD: Json = {
    "errorDetails": {"code": "JobFailed", "message": "Build terminated with state: FAILED"}
}


def create(aws: Aws, model: Properties) -> Properties:
    aws.pipelines.definitions[model["Name"]] = model
    run(aws, model["Name"])
    return {}


def update(aws: Aws, _old: Properties, new: Properties) -> Properties:
    aws.pipelines.definitions[new["Name"]] = new
    if new.get("RestartExecutionOnUpdate"):
        run(aws, new["Name"])
    return {}


def delete(aws: Aws, model: Properties) -> None:
    for kept in (aws.pipelines.definitions, aws.pipelines.states, aws.pipelines.executions):
        kept.pop(model["Name"], None)


def run(aws: Aws, name: str, variables: dict[str, str] | None = None) -> str:
    """Run a pipeline to its end, and return the ID of the execution."""
    pipelines, definition = aws.pipelines, aws.pipelines.definitions[name]
    said = {each["Name"]: each.get("DefaultValue", "") for each in definition.get("Variables", [])} | (variables or {})
    execution = {"pipelineExecutionId": str(uuid.uuid4()), "status": "InProgress", "startTime": time.time()}
    pipelines.executions.setdefault(name, []).insert(0, execution)
    pipelines.states[name] = [
        {"stageName": each["Name"], "actionStates": [{"actionName": action["Name"]} for action in each["Actions"]]}
        for each in definition["Stages"]
    ]
    for action in (action for stage in definition["Stages"] for action in stage["Actions"]):
        if action["ActionTypeId"]["Provider"] == "CodeBuild":
            # Until its build succeeds. What tells the condition of a failure is in `signals`.
            aws.unheard.add(_environment(aws, _project(aws, action), action, {"execution": ""})[1])
    for stage, state in zip(definition["Stages"], pipelines.states[name], strict=True):
        if not _run_stage(aws, name, stage, state, execution, said):
            execution["status"] = "Failed"
            _publish(aws, name, execution)
            break
    else:
        execution["status"] = "Succeeded"
    execution["lastUpdateTime"] = time.time()
    return str(execution["pipelineExecutionId"])


def _run_stage(aws: Aws, name: str, stage: Json, state: Json, execution: Json, variables: dict[str, str]) -> bool:
    """Run the actions of a stage, and failed ones once more if the stage retries. Return whether all succeeded."""
    latest = {"pipelineExecutionId": execution["pipelineExecutionId"], "status": "InProgress"}
    state["latestExecution"] = latest
    left = list(range(len(stage["Actions"])))
    for retry in (False, True):
        if retry:
            if stage.get("OnFailure", {}).get("Result") != "RETRY":
                break
            state["retryStageMetadata"] = {"autoStageRetryAttempt": 1, "latestRetryTrigger": "AutomatedStageRetry"}
            # The retry is already in progress when the event of the failure arrives.
            _publish(aws, name, execution)
        for each in left:
            state["actionStates"][each]["latestExecution"] = _attempt(
                aws, name, stage["Actions"][each], execution, variables
            )
        left = [each for each in left if state["actionStates"][each]["latestExecution"]["status"] == "Failed"]
        if not left:
            latest["status"] = "Succeeded"
            return True
    latest["status"] = "Failed"
    return False


def _attempt(aws: Aws, name: str, action: Json, execution: Json, variables: dict[str, str]) -> Json:
    """Return the latest execution of an action, as GetPipelineState shows it."""
    planned = aws.pipelines.outcomes.get(f"{name}/{action['Name']}", [])
    outcome: Json = planned.pop(0) if planned else {}
    if "error" in outcome:
        return {"status": "Failed", "lastStatusChange": time.time(), "errorDetails": outcome["error"]}
    if action["ActionTypeId"]["Provider"] != "CodeBuild":
        return {"status": "Succeeded", "lastStatusChange": time.time()}
    project = action["Configuration"]["ProjectName"]
    build = _build(aws, project, action, outcome, {**variables, "execution": execution["pipelineExecutionId"]})
    aws.pipelines.builds[build["id"]] = build
    failed = build["buildStatus"] != "SUCCEEDED"
    return {
        "status": "Failed" if failed else "Succeeded",
        "lastStatusChange": time.time(),
        "externalExecutionId": build["id"],
        **(_STATE_OF_A_FAILED_BUILD if failed else {}),
    }


def _build(aws: Aws, project: str, action: Json, outcome: Json, variables: dict[str, str]) -> Json:
    identity = str(uuid.uuid4())
    definition = _project(aws, action)
    environment, handle = _environment(aws, definition, action, variables)
    phase, contexts, output = "", [], ""
    if "phase" in outcome:
        phase = outcome["phase"]
        contexts = [{"statusCode": outcome["code"], "message": outcome["message"]}]
    elif "command" in outcome:
        ran = subprocess.run(
            outcome["command"],
            env={**os.environ, **environment, **outcome.get("environment", {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        output = ran.stdout
        if ran.returncode:
            phase, message = "BUILD", f"Error while executing command. Reason: exit status {ran.returncode}"
            contexts = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": message}]
    if not phase:
        aws.unheard.discard(handle)
        if "command" not in outcome and "IMAGE_REPOSITORY" in environment:
            _push(aws, environment["IMAGE_REPOSITORY"], environment["IMAGE_TAG"], handle)
    reached = PHASES[: PHASES.index(phase)] if phase else PHASES
    phases: list[Json] = [{"phaseType": each, "phaseStatus": "SUCCEEDED"} for each in reached]
    if phase:
        phases.append({"phaseType": phase, "phaseStatus": "FAILED", "contexts": contexts})
    group = definition.get("logsConfig", {}).get("cloudWatchLogs", {}).get("groupName")
    logs = {"groupName": group, "streamName": identity} if group and output else {}
    if logs:
        _log(aws, logs, output)
    return {
        "id": f"{project}:{identity}",
        "projectName": project,
        "buildStatus": "FAILED" if phase else "SUCCEEDED",
        "buildComplete": True,
        "currentPhase": "COMPLETED",
        "phases": [*phases, {"phaseType": "COMPLETED"}],
        "logs": logs,
    }


def _push(aws: Aws, repository: str, tag: str, handle: str) -> None:
    """Put an image without layers into a repository, and report its digest, as a build would."""
    if aws.signals.get(handle):
        return
    digest = f"sha256:{hashlib.sha256(tag.encode()).hexdigest()}"
    config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": 2}
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": []}
    ecr, name = aws.client("ecr"), repository.partition("/")[2]
    with ignoring("ImageAlreadyExistsException", "RepositoryNotFoundException"):
        ecr.put_image(
            repositoryName=name, imageManifest=json.dumps(manifest), imageManifestMediaType=_MANIFEST, imageTag=tag
        )
    with ignoring("ImageNotFoundException", "RepositoryNotFoundException"):
        (found,) = ecr.describe_images(repositoryName=name, imageIds=[{"imageTag": tag}])["imageDetails"]
        told = {"Status": "SUCCESS", "Reason": "", "UniqueId": "digest", "Data": found["imageDigest"]}
        aws.signals.setdefault(handle, []).append(told)


def _project(aws: Aws, action: Json) -> Json:
    found: Json = aws.client("codebuild").batch_get_projects(names=[action["Configuration"]["ProjectName"]])[
        "projects"
    ][0]
    return found


def _environment(aws: Aws, project: Json, action: Json, variables: dict[str, str]) -> tuple[dict[str, str], str]:
    """Return the environment of a build, and the ID of the wait condition handle that is in it."""
    values, handle = {}, ""
    told = json.loads(action["Configuration"].get("EnvironmentVariables", "[]"))
    for each in (*project["environment"].get("environmentVariables", []), *told):
        value = each["value"]
        if each.get("type") == "PARAMETER_STORE":
            found = aws.client("ssm").get_parameters(Names=[value])["Parameters"]
            value = found[0]["Value"] if found else ""
            if HANDLES in value:
                handle = value.rpartition("/")[2]
        value = value.replace("#{codepipeline.PipelineExecutionId}", variables["execution"])
        values[each["name"]] = re.sub(r"#\{variables\.(\w+)\}", lambda found: variables.get(found[1], ""), value)
    return {**values, **_client_environment(aws)}, handle


def _client_environment(aws: Aws) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_REGION": aws.region,
        "AWS_DEFAULT_REGION": aws.region,
        "AWS_ACCESS_KEY_ID": "emulator",
        "AWS_SECRET_ACCESS_KEY": "emulator",
    }


def _log(aws: Aws, logs: Json, output: str) -> None:
    client, now = aws.client("logs"), int(time.time() * 1000)
    names = {"logGroupName": logs["groupName"], "logStreamName": logs["streamName"]}
    client.create_log_stream(**names)
    events = [{"timestamp": now, "message": line} for line in output.splitlines() if line]
    client.put_log_events(**names, logEvents=events)


def _publish(aws: Aws, name: str, execution: Json) -> None:
    """Start the runbooks of the rules that match a failed pipeline. The log has the error of a failed runbook."""
    event = {
        "source": "aws.codepipeline",
        "detail-type": "CodePipeline Pipeline Execution State Change",
        "detail": {"pipeline": name, "execution-id": execution["pipelineExecutionId"], "state": "FAILED"},
    }
    send_event(aws, event)


def send_event(aws: Aws, event: Json) -> None:
    """Start the runbooks of the rules that match an event. The log has the error of a failed runbook.

    moto's matcher of patterns is that of its EventBridge.
    """
    from moto.events.models import EventPattern

    events = aws.client("events")
    # One page has 50 rules, which several platforms in one account exceed.
    rules = [each for page in events.get_paginator("list_rules").paginate() for each in page["Rules"]]
    for rule in rules:
        if "EventPattern" in rule and EventPattern.load(rule["EventPattern"]).matches_event(event):  # type: ignore[arg-type]
            for target in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
                text = _input(target, event)
                if ":sqs:" in target["Arn"]:
                    _queue(aws, target["Arn"], text)
                elif ":automation-definition/" in target["Arn"]:
                    _start_runbook(aws, target, text)


def _input(target: Json, event: Json) -> str:
    """Return what EventBridge sends to a target.

    A template with a null has the word null in its place, and one with a value that the event lacks has nothing there.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html (read 2026-11-30)
    """
    transformer = target.get("InputTransformer")
    if transformer is None:
        return str(target.get("Input") or json.dumps(event))
    text = str(transformer["InputTemplate"]).replace("<aws.events.event.json>", json.dumps(event))
    for key, path in transformer.get("InputPathsMap", {}).items():
        value: Any = event
        for part in path.removeprefix("$.").split("."):
            value = value.get(part, "") if isinstance(value, dict) else ""
        text = text.replace(f"<{key}>", json.dumps(value) if value != "" else "")
    return text


def _queue(aws: Aws, arn: str, text: str) -> None:
    sqs = aws.client("sqs")
    sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"], MessageBody=text)


def _start_runbook(aws: Aws, target: Json, text: str) -> None:
    """Start a runbook with parameters. What Automation refuses goes to the dead-letter queue, or is lost."""
    import sys

    name = target["Arn"].rpartition("/")[2].partition(":")[0]
    try:
        parameters = _parameters(aws, name, text)
    except ValueError:
        if queue := target.get("DeadLetterConfig", {}).get("Arn"):
            _queue(aws, queue, text)
        return
    document = json.loads(aws.client("ssm").get_document(Name=name)["Content"])
    given = {key: each.get("default", "") for key, each in document["parameters"].items()}
    given |= {key: values[0] for key, values in parameters.items()}
    for step in document["mainSteps"]:
        inputs = step["inputs"]
        quoted = json.dumps(inputs["InputPayload"])
        payload = re.sub(r"\{\{ *(\w+) *\}\}", lambda found: json.dumps(given[found[1]])[1:-1], quoted)
        call = f"{inputs['Script']}\nimport json, sys\nprint({inputs['Handler']}(json.loads(sys.argv[1]), None))"
        command = [sys.executable, "-c", call, payload]
        for _ in range(step.get("maxAttempts", 1)):
            ran = subprocess.run(command, env={**os.environ, **_client_environment(aws)}, timeout=300, check=False)
            if ran.returncode == 0:
                break


def _parameters(aws: Aws, document: str, text: str) -> dict[str, list[str]]:
    """Return the parameters in the text of a target's input. Raises ValueError for what the API's model refuses."""
    from botocore.validate import ParamValidator

    parameters: dict[str, list[str]] = json.loads(text)
    operation = aws.client("ssm").meta.service_model.operation_model("StartAutomationExecution")
    report = ParamValidator().validate({"DocumentName": document, "Parameters": parameters}, operation.input_shape)
    longest = operation.input_shape.members["Parameters"].value.member.metadata["max"]
    if report.has_errors() or any(len(each) > longest for values in parameters.values() for each in values):
        raise ValueError(report.generate_report())
    return parameters


def answer(aws: Aws, operation: str, asked: Json) -> Json | None:
    """Return the response to an operation of CodePipeline or CodeBuild, or None if moto answers it.

    Raises ResourceError for a pipeline that does not exist.
    """
    pipelines = aws.pipelines
    if operation == "BatchGetBuilds":
        known = {each: pipelines.builds[each] for each in asked["ids"] if each in pipelines.builds}
        return {"builds": list(known.values()), "buildsNotFound": [each for each in asked["ids"] if each not in known]}
    if operation not in ("GetPipelineState", "StartPipelineExecution", "ListPipelineExecutions"):
        return None
    name = asked.get("name") or asked["pipelineName"]
    if name not in pipelines.definitions:
        raise ResourceError(f"Account '{aws.account}' does not have a pipeline with name '{name}'")
    if operation == "StartPipelineExecution":
        variables = {each["name"]: each["value"] for each in asked.get("variables", [])}
        return {"pipelineExecutionId": run(aws, name, variables)}
    if operation == "ListPipelineExecutions":
        return {"pipelineExecutionSummaries": pipelines.executions.get(name, [])[: asked.get("maxResults", 100)]}
    return {"pipelineName": name, "stageStates": pipelines.states.get(name, [])}


def put_rule(aws: Aws, model: Properties) -> Properties:
    events = aws.client("events")
    pattern = {"EventPattern": json.dumps(model["EventPattern"])} if "EventPattern" in model else {}
    schedule = {"ScheduleExpression": model["ScheduleExpression"]} if "ScheduleExpression" in model else {}
    arn = events.put_rule(Name=model["Name"], **pattern, **schedule)["RuleArn"]
    if model.get("Targets"):
        events.put_targets(Rule=model["Name"], Targets=model["Targets"])
    return {"Arn": arn}


def delete_rule(aws: Aws, model: Properties) -> None:
    events = aws.client("events")
    try:
        events.describe_rule(Name=model["Name"])
    except events.exceptions.ResourceNotFoundException:
        return
    targets = [each["Id"] for each in events.list_targets_by_rule(Rule=model["Name"])["Targets"]]
    if targets:
        events.remove_targets(Rule=model["Name"], Ids=targets)
    events.delete_rule(Name=model["Name"])


def create_document(aws: Aws, model: Properties) -> Properties:
    aws.client("ssm").create_document(
        Name=model["Name"], Content=_content(model), DocumentType=model["DocumentType"], DocumentFormat="JSON"
    )
    return {}


def update_document(aws: Aws, _old: Properties, new: Properties) -> Properties:
    """Make the new content the document's default version.

    SSM refuses content that an earlier version has. That version then becomes the default version again.
    """
    ssm, name, content = aws.client("ssm"), new["Name"], _content(new)
    latest = int(ssm.describe_document(Name=name)["Document"]["LatestVersion"])
    for version in map(str, range(1, latest + 1)):
        if ssm.get_document(Name=name, DocumentVersion=version)["Content"] == content:
            break
    else:
        version = str(latest + 1)
        ssm.update_document(Name=name, Content=content, DocumentVersion="$LATEST", DocumentFormat="JSON")
    ssm.update_document_default_version(Name=name, DocumentVersion=version)
    return {}


def _content(model: Properties) -> str:
    return model["Content"] if isinstance(model["Content"], str) else json.dumps(model["Content"])


def delete_document(aws: Aws, model: Properties) -> None:
    ssm = aws.client("ssm")
    with contextlib.suppress(ssm.exceptions.InvalidDocument):
        ssm.delete_document(Name=model["Name"])


SERVICES = {
    "AWS::CodePipeline::Pipeline": Service(create, delete, update, depth="record"),
    "AWS::Events::Rule": Service(put_rule, delete_rule, lambda aws, _old, new: put_rule(aws, new)),
    "AWS::SSM::Document": Service(create_document, delete_document, update_document),
}
