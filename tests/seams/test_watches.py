"""The rule that watches a pipeline matches the event of its failure, and its runbook's script tells CloudFormation."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.seams.resolved import deployed_of
from tests.seams.seam import Planted, Seam

RUN = "12345678-1234-1234-1234-123456789012"
URL = "https://cloudformation-waitcondition.example.com/signed"
# The event as CodePipeline's user guide has it (read 2026-11-23):
# https://docs.aws.amazon.com/codepipeline/latest/userguide/detect-state-changes-cloudwatch-events.html
EVENT: dict[str, Any] = {
    "version": "0",
    "detail-type": "CodePipeline Pipeline Execution State Change",
    "source": "aws.codepipeline",
    "detail": {
        "pipeline": "NAME",
        "execution-id": RUN,
        "state": "FAILED",
        "version": 1,
        "pipeline-execution-attempt": 1,
    },
}


@cache
def watches() -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Return the pipelines of a platform, each with its rule and its runbook."""
    platform = deployed_of("hyperpod-eks-shared")
    documents = {each["Name"]: each for each in platform.of_type("AWS::SSM::Document").values()}
    rules = {
        each["EventPattern"]["detail"]["pipeline"][0]: each
        for each in platform.of_type("AWS::Events::Rule").values()
        # The rule that tells people names all pipelines.
        if len(each["EventPattern"]["detail"].get("pipeline", ())) == 1
    }
    pipelines = platform.of_type("AWS::CodePipeline::Pipeline").values()
    return [(each, rules[each["Name"]], documents[f"{each['Name']}-failed"]) for each in pipelines]


def problems(pipeline: dict[str, Any], rule: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Return what keeps the runbook from telling the conditions of a pipeline whose last stage has failed."""
    from moto.events.models import EventPattern

    name = pipeline["Name"]
    event: Any = {**EVENT, "detail": {**EVENT["detail"], "pipeline": name}}
    if not EventPattern.load(json.dumps(rule["EventPattern"])).matches_event(event):
        return ["the rule does not match the event"]
    transformer = rule["Targets"][0]["InputTransformer"]
    text = transformer["InputTemplate"]
    for key, path in transformer["InputPathsMap"].items():
        value: Any = event
        for part in path.removeprefix("$.").split("."):
            value = value.get(part, "")
        text = text.replace(f"<{key}>", json.dumps(value))
    given = json.loads(text)
    if given.keys() != document["Content"]["parameters"].keys():
        return [f"the runbook has no parameters {', '.join(given)}"]
    (step,) = document["Content"]["mainSteps"]
    payload = json.loads(json.dumps(step["inputs"]["InputPayload"]).replace("{{ Run }}", given["Run"][0]))
    try:
        told = _told(step["inputs"], payload, pipeline)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    stages = {action["Name"].lower() for stage in pipeline["Stages"][1:] for action in stage["Actions"]}
    return [f"the condition of {each} is not told" for each in sorted(stages - told.keys())]


def _told(inputs: dict[str, Any], payload: dict[str, Any], pipeline: dict[str, Any]) -> dict[str, str]:
    """Run the script on answers that botocore validates. Return the reason that each stage reported."""
    import boto3
    from botocore.stub import Stubber

    failed = pipeline["Stages"][-1]
    latest = {"status": "Failed", "errorDetails": {"code": "AccountLimitExceededException", "message": "no builds"}}
    state = {
        "stageName": failed["Name"],
        "actionStates": [{"actionName": each["Name"], "latestExecution": latest} for each in failed["Actions"]],
        "latestExecution": {"pipelineExecutionId": RUN, "status": "Failed"},
        "retryStageMetadata": {"autoStageRetryAttempt": 1},
    }
    session: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-west-2")
    codepipeline, ssm = session.client("codepipeline"), session.client("ssm")
    asked = Stubber(codepipeline)
    for _ in ("why it failed", "what ended well"):
        asked.add_response("get_pipeline_state", {"stageStates": [state]}, {"name": pipeline["Name"]})
    parameters = Stubber(ssm)
    for each in payload["signals"].values():
        parameters.add_response("get_parameters", {"Parameters": [{"Value": URL}]}, {"Names": [each]})
    script: dict[str, Any] = {}
    exec(inputs["Script"], script)
    sent: dict[str, str] = {}
    script["tell"] = lambda url, name, reason: sent.update({name: reason}) if url == URL else None
    clients = {"codepipeline": codepipeline, "ssm": ssm}
    with asked, parameters, _patched(clients):
        script[inputs["Handler"]](payload, None)
    return sent


class _patched:
    def __init__(self, clients: dict[str, Any]) -> None:
        self.clients = clients

    def __enter__(self) -> None:
        import boto3

        self.before = boto3.client
        boto3.client = self.clients.__getitem__  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        import boto3

        boto3.client = self.before


def test_the_runbook_tells_every_condition_of_its_pipeline() -> None:
    assert len(watches()) >= 3
    assert [problem for each in watches() for problem in problems(*each)] == []


def planted(error: str, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Planted:
    """Plant an error in a rule or a runbook."""

    def read(change: Callable[[dict[str, Any], dict[str, Any]], object] | None, _: Path) -> Sequence[str]:
        pipeline, rule, document = copy.deepcopy(watches()[0])
        if change:
            change(rule, document)
        return problems(pipeline, rule, document)

    return Planted(error, sound=partial(read, None), broken=partial(read, change))


def _payload(document: dict[str, Any]) -> dict[str, Any]:
    payload: dict[str, Any] = document["Content"]["mainSteps"][0]["inputs"]["InputPayload"]
    return payload


SEAMS = (
    Seam(
        artifact="Rules that watch the pipelines, and their runbooks",
        rendered_by="stacks/constructs/delivery/watch.py",
        reader="moto's matcher of event patterns, and Python, which runs the runbook's script on answers that botocore "
        "checks. `tests/delivery/test_failed_pipelines.py` runs both on the emulated AWS",
        instead="EventBridge and Systems Manager run only in AWS.",
        planted=(
            planted(
                "the rule waits for a state that is none",
                lambda rule, _: rule["EventPattern"]["detail"].update(state=["Failed"]),
            ),
            planted(
                "the rule hands on the event's version in place of the run",
                lambda rule, _: rule["Targets"][0]["InputTransformer"]["InputPathsMap"].update(run="$.version"),
            ),
            planted("a stage's condition is left out", lambda _, document: _payload(document).update(signals={})),
        ),
    ),
)
