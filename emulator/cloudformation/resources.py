"""Create, update, and delete one resource, by its emulated service or as a record."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from emulator.errors import ResourceError
from emulator.registry import records
from emulator.registry.schema import Properties, PropertyProblem, ResourceSchema, load
from emulator.services import SERVICES, Aws
from emulator.services.made_by_aws import make_beside


@dataclass(frozen=True)
class Resource:
    """A resource as the stack knows it.

    `properties` are the template's, resolved. `model` adds names that CloudFormation chose, and values that AWS
    reports. `settings` are the template's other keys (DeletionPolicy, Metadata, …).
    """

    logical_id: str
    type: str
    properties: Properties
    model: Properties
    physical_id: str
    settings: dict[str, Any] = field(default_factory=dict)
    status: str = "CREATE_COMPLETE"
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def depth(self) -> str:
        """Return "service" if an emulated service keeps the resource, and "record" otherwise."""
        service = SERVICES.get(self.type)
        return service.depth if service else "record"


def create(aws: Aws, stack: str, logical_id: str, kind: str, properties: Properties) -> Resource:
    """Create a resource. Raises ResourceError with the reason if its properties are invalid or its service refuses."""
    schema = load(kind, aws.region)
    refuse(logical_id, schema.problems(properties))
    names = records.Names(aws.account, aws.region, stack, logical_id)
    model = {**records.default_names(schema, properties, names), **properties}
    service = SERVICES.get(kind)
    if service:
        with _service_errors():
            model |= service.create(aws, model)
    model = records.complete(schema, model, names)
    with _service_errors():
        make_beside(aws, kind, model)
    return Resource(logical_id, kind, properties, model, records.physical_id(schema, model))


def find(aws: Aws, stack: str, logical_id: str, kind: str, properties: Properties) -> Resource | None:
    """Return the resource of that identifier as its service has it, without changing it, or None."""
    schema, service = load(kind, aws.region), SERVICES.get(kind)
    if service is None or service.find is None:
        return None
    with _service_errors():
        report = service.find(aws, properties)
    if report is None:
        return None
    names = records.Names(aws.account, aws.region, stack, logical_id)
    model = records.complete(schema, {**properties, **report}, names)
    return Resource(logical_id, kind, properties, model, records.physical_id(schema, model), status="IMPORT_COMPLETE")


def update(aws: Aws, old: Resource, properties: Properties) -> Resource:
    """Change a resource in place. Raises ResourceError with the reason if that is impossible."""
    schema = load(old.type, aws.region)
    refuse(old.logical_id, schema.problems(properties))
    made_up = {key: value for key, value in old.model.items() if key not in old.properties}
    model = {**made_up, **properties}
    service = SERVICES.get(old.type)
    if service and service.update is None:
        raise ResourceError(f"Updates are not supported for {old.type}: give the resource a new logical id")
    if service and service.update:
        with _service_errors():
            model |= service.update(aws, old.model, model)
    with _service_errors():
        make_beside(aws, old.type, model)
    return replace(
        old,
        properties=properties,
        model=model,
        physical_id=records.physical_id(schema, model),
        status="UPDATE_COMPLETE",
        changed=datetime.now(UTC),
    )


def delete(aws: Aws, resource: Resource) -> None:
    """Delete a resource. One that is already gone is not an error. Raises ResourceError if its service refuses."""
    service = SERVICES.get(resource.type)
    if service:
        with _service_errors():
            service.delete(aws, resource.model)


def chosen_identifier(schema: ResourceSchema, properties: Properties) -> tuple[str, ...] | None:
    """Return the identifier if the template chose all of it, so that no second resource can have it, or None."""
    chosen = [properties.get(name) for name in schema.primary_identifier]
    return tuple(str(value) for value in chosen) if all(value is not None for value in chosen) else None


def refuse(logical_id: str, problems: list[PropertyProblem]) -> None:
    """Raise ResourceError with all problems of a resource's properties, if there are any."""
    if problems:
        reasons = "\n".join(str(problem) for problem in problems)
        raise ResourceError(f"Properties validation failed for resource {logical_id} with message:\n{reasons}")


@contextmanager
def _service_errors() -> Iterator[None]:
    """Turn a service's refusal into the reason in the stack's event."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        detail = error.response["Error"]
        raise ResourceError(f"{detail.get('Message')} ({error.operation_name}: {detail.get('Code')})") from error
    except BotoCoreError as error:
        raise ResourceError(str(error)) from error
    except ResourceError:
        raise
    except Exception as error:
        # A fault of the emulator must roll the stack back like any other, and be visible. The log has all of it.
        traceback.print_exc()
        raise ResourceError(f"the emulator failed, which is a fault of its own: {error!r}") from error
