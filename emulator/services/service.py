"""Resources of emulated services, kept by plain AWS API calls, as any client would make them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulator.errors import ResourceError
from emulator.registry.schema import Properties

if TYPE_CHECKING:
    from collections.abc import Mapping


Find = Callable[["Aws", Properties], Properties | None]
Create = Callable[["Aws", Properties], Properties]
UpdateFunction = Callable[["Aws", Properties, Properties], Properties]
Delete = Callable[["Aws", Properties], None]


@dataclass(frozen=True)
class Service:
    """Create, update and delete for one resource type.

    A model is the properties of the template plus the names CloudFormation made up plus what the service reported.

    create: model → what the service reports (read-only attributes, or settable ones that it chose).
    update: old model, new model → what changed in the report. None: the emulated service cannot change it in place.
    delete: model → nothing. Deleting what is already gone succeeds, as in CloudFormation.
    find: the identifier's properties → what the service reports of a resource that exists already, or None. A type
    without it cannot be imported, unless CloudFormation made the resource once.
    depth: "service" when a service's own API shows the resource, "record" when nothing stands behind it.
    """

    create: Create
    delete: Delete
    update: UpdateFunction | None = None
    find: Find | None = None
    depth: str = "service"


@dataclass
class Pipelines:
    """The pipelines of a Region: definitions and states by name, builds by ID, and executions by pipeline.

    `outcomes` has, by `PIPELINE/ACTION`, how the next attempts of an action end: `{}` for success, `{"error": {"code":
    …, "message": …}}` for an action that starts no build, `{"phase": …, "code": …, "message": …}` for a build that
    fails in a phase, and `{"command": […], "environment": {…}}` for one that ends as the command does.
    """

    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    executions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    builds: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass
class Aws:
    """The emulated AWS of one region, for resource handlers.

    `signals` are the requests that were PUT to wait condition handles, by handle ID. `unheard` are the handles of
    failed builds. `addons` are those of EKS clusters that stacks made, as EKS describes them, and
    `clusters` the models of HyperPod clusters by name. `log_alarms` are alarms on logs, and `alarm_states` the
    states of all alarms, by name.
    """

    session: Any  # a boto3.Session, whose stubs accept only a literal service name
    account: str
    region: str
    endpoint: str
    signals: dict[str, list[dict[str, Any]]]
    pipelines: Pipelines = field(default_factory=Pipelines)
    unheard: set[str] = field(default_factory=set)
    addons: list[dict[str, Any]] = field(default_factory=list)
    clusters: dict[str, Properties] = field(default_factory=dict)
    log_alarms: dict[str, Properties] = field(default_factory=dict)
    alarm_states: dict[str, str] = field(default_factory=dict)
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def client(self, name: str) -> Any:
        """Return a boto3 client. Clients are cached, because creating one takes up to 0.3 s."""
        from botocore.config import Config

        with self._lock:
            if name not in self._clients:
                self._clients[name] = self.session.client(
                    name,
                    region_name=self.region,
                    endpoint_url=self.endpoint,
                    config=Config(retries={"total_max_attempts": 1}),  # retries do not help with an emulator
                )
            return self._clients[name]

    def call(self, service: str, operation: str, properties: Mapping[str, Any], **arguments: Any) -> dict[str, Any]:
        """Call an API operation (`create_key`) with the properties that it accepts, in its spelling."""
        client = self.client(service)
        shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation]).input_shape
        response: dict[str, Any] = getattr(client, operation)(**{**api_arguments(shape, properties), **arguments})
        return response


def api_arguments(shape: Any, value: Any) -> Any:
    """Convert properties to the form of an API request.

    The API's names differ from the template's in the case of letters ("name" for "Name"). Its tags are sometimes an
    object instead of CloudFormation's list. Properties that it lacks are left out.
    """
    if shape.type_name == "structure" and isinstance(value, dict):
        members = {name.lower(): (name, member) for name, member in shape.members.items()}
        known = {key: members[key.lower()] for key in value if key.lower() in members}
        return {name: api_arguments(member, value[key]) for key, (name, member) in known.items()}
    if shape.type_name == "list" and isinstance(value, list):
        return [api_arguments(shape.member, item) for item in value]
    if shape.type_name == "map" and isinstance(value, list):
        return {tag["Key"]: tag["Value"] for tag in value}
    return value


def without(properties: Properties, *names: str) -> Properties:
    """Return the properties without some names, which the caller passes in another way."""
    return {key: value for key, value in properties.items() if key not in names}


@contextmanager
def ignoring(*codes: str) -> Iterator[None]:
    """Return a context that ignores AWS errors with these codes, for deleting what may be gone already."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in codes:
            raise


def only_changed(old: Properties, new: Properties, allowed: tuple[str, ...]) -> None:
    """Refuse an update that the emulated service could not apply.

    Raises ResourceError if a property outside `allowed` differs.
    """
    changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    if rest := sorted(changed - set(allowed)):
        raise ResourceError(f"the emulated service cannot change {rest} in place")
