"""Wait conditions, to which a build would report.

In AWS a CodeBuild stage PUTs its result to the handle's URL, and the condition completes. Nothing is built here, so a
condition completes at once, with the depth "record". Its data is an earlier signal, or otherwise a digest of the
handle's ID. An earlier failure signal fails the condition with its reason, as in AWS. The condition of a failed build
without a signal times out. https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html
(2026-11).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from emulator.errors import ResourceError
from emulator.registry.schema import Properties
from emulator.services.service import Aws, Service

HANDLES = "/_trainway/wait-condition-handles/"
_REQUIRED = ("Status", "Reason", "UniqueId", "Data")


def create_handle(aws: Aws, _model: Properties) -> Properties:
    handle_id = uuid.uuid4().hex
    aws.signals[handle_id] = []
    return {"Id": f"{aws.endpoint}{HANDLES}{handle_id}"}


def delete_handle(aws: Aws, model: Properties) -> None:
    aws.signals.pop(model["Id"].rpartition("/")[2], None)


def create_condition(aws: Aws, model: Properties) -> Properties:
    handle_id = model.get("Handle", "").rpartition("/")[2]
    if handle_id not in aws.signals:
        raise ResourceError(
            f"Handle {model.get('Handle')!r} is not the URL of a wait condition handle of this emulator"
        )
    signals = aws.signals[handle_id]
    failures = [
        f"{signal['Reason']} (UniqueId {signal['UniqueId']})" for signal in signals if signal["Status"] == "FAILURE"
    ]
    if failures:
        raise ResourceError(f"WaitCondition received failed message: {'; '.join(failures)}")
    if not signals and handle_id in aws.unheard:
        # In AWS this takes as long as the condition's timeout.
        raise ResourceError("WaitCondition timed out. Received 0 conditions when expecting 1")
    data = {signal["UniqueId"]: signal["Data"] for signal in signals}
    digest = hashlib.sha256(handle_id.encode()).hexdigest()
    return {"Data": json.dumps(data or {"digest": f"sha256:{digest}"})}


def receive(signals: dict[str, list[dict[str, Any]]], handle_id: str, body: bytes) -> str | None:
    """Store a signal that was PUT to a handle. Return the problem, or None if it was accepted."""
    if handle_id not in signals:
        return "no such wait condition handle"
    try:
        signal = json.loads(body)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(signal, dict) or set(signal) != set(_REQUIRED):
        return f"a signal is an object with the keys {', '.join(_REQUIRED)}"
    if signal["Status"] not in ("SUCCESS", "FAILURE"):
        return f"Status is SUCCESS or FAILURE, not {signal['Status']!r}"
    signals[handle_id].append(signal)
    return None


SERVICES = {
    "AWS::CloudFormation::WaitCondition": Service(create_condition, lambda _aws, _model: None, depth="record"),
    "AWS::CloudFormation::WaitConditionHandle": Service(create_handle, delete_handle, depth="record"),
}
