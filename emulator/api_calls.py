"""Read a request as a call of an API operation, and write its answer, by botocore's models and moto's protocols."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl

from emulator.errors import RefusedCall
from emulator.protocol import render_error

# The names that signatures have for services that botocore calls otherwise.
_SIGNED_AS = {"servicequotas": "service-quotas", "monitoring": "cloudwatch", "email": "ses"}
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class ApiCall:
    """A request of a client: the service as botocore names it, the operation, and what the client sent."""

    service: str
    operation: str
    environ: dict[str, Any]
    body: bytes

    @property
    def action(self) -> str:
        """Return the name of the call, for example `ec2:DescribeSubnets`."""
        return f"{self.service}:{self.operation}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters with the names and types of the API's model."""
        from moto.core.parse import PROTOCOL_PARSERS
        from werkzeug.datastructures import Headers, MultiDict

        model = _model(self.service)
        # Parameters of a form are in the body, and those of REST also in the query of the path.
        pairs = self.body.decode() if _FORM in self._kind else str(self.environ.get("QUERY_STRING", ""))
        form = dict(parse_qsl(pairs, keep_blank_values=True))
        parsed: dict[str, Any] = PROTOCOL_PARSERS[self._protocol(model)](model.operation_model(self.operation)).parse(
            {
                "body": self.body,
                "headers": Headers(),
                "method": self.environ["REQUEST_METHOD"],
                "url_params": self._path_values(model),
                "url_path": self.environ["PATH_INFO"],
                "values": MultiDict(form),
            }
        )
        return parsed

    def input_shape(self) -> Any:
        """Return the shape of the parameters in the API's model, or None for an operation without any."""
        return _model(self.service).operation_model(self.operation).input_shape

    def valid_parameters(self) -> dict[str, Any]:
        """Return the parameters. Raises RefusedCall for those that botocore's validator refuses."""
        parameters, shape = self.parameters(), self.input_shape()
        if shape is not None:
            try:
                require_shape(parameters, shape, self.action)
            except ValueError as error:
                raise RefusedCall("ValidationException", str(error)) from None
        return parameters

    def answer(self, result: dict[str, Any]) -> tuple[int, bytes, str]:
        """Return status, body, and content type of the answer. Raises ValueError for a result that no client reads."""
        from moto.core.serialize import get_serializer_class

        model = _model(self.service)
        operation = model.operation_model(self.operation)
        require_shape(result, operation.output_shape, self.action)
        serialized = get_serializer_class(self.service, model.protocol)(operation).serialize(result)
        body = serialized["body"]
        kind = serialized["headers"].get("Content-Type", "application/json")
        return serialized["status_code"], body if isinstance(body, bytes) else str(body).encode(), str(kind)

    def error(self, code: str, message: str, status: int = 400) -> tuple[int, bytes, str]:
        """Return status, body, and content type of an error, as the service's protocol has it."""
        if self.environ["REQUEST_METHOD"] == "HEAD":
            return 403, b"", "application/xml"
        if _FORM in self._kind:
            if self.service != "ec2":
                return status, render_error(code, message), "text/xml"
            text = (
                f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors></Response>"
            )
            return status, text.encode(), "text/xml"
        if self.service == "s3":
            return status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode(), "application/xml"
        return status, json.dumps({"__type": code, "message": message}).encode(), "application/x-amz-json-1.1"

    def _protocol(self, model: Any) -> str:
        """Return the protocol of the request. A service can have several, and a client chooses one."""
        if "x-amz-json" in self._kind:
            return "json"
        return str(model.protocol) if model.protocol in ("ec2", "rest-json", "rest-xml") else "query"

    def _path_values(self, model: Any) -> dict[str, str]:
        """Return the parameters that are parts of the path, by the names that the path's pattern has."""
        uri = str(model.operation_model(self.operation).http.get("requestUri", "/")).partition("?")[0]
        names = re.findall(r"\{([^{}+]+)\+?\}", uri)
        found = _path_pattern(uri).fullmatch(self.environ["PATH_INFO"])
        return dict(zip(names, found.groups(), strict=True)) if found else {}

    @property
    def _kind(self) -> str:
        return str(self.environ.get("CONTENT_TYPE", ""))


def read_call(signed_as: str, environ: dict[str, Any], body: bytes) -> ApiCall | None:
    """Return the call that a signed request makes, or None for an operation that no model has."""
    service = _SIGNED_AS.get(signed_as, signed_as)
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return ApiCall(service, target.rpartition(".")[2], environ, body)
    if _FORM in str(environ.get("CONTENT_TYPE", "")):
        found = dict(parse_qsl(body.decode(errors="replace"))).get("Action")
        return ApiCall(service, found, environ, body) if found else None
    name = _rest_operation(service, environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
    return ApiCall(service, name, environ, body) if name else None


def require_shape(value: Any, shape: Any, name: str) -> None:
    """Raise ValueError if a value does not have the names and types of a shape of an API's model."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        raise ValueError(f"{name}: {report.generate_report()}")
    if unknown := sorted(set(value) - set(shape.members)):
        raise ValueError(f"{name} has no {', '.join(unknown)}")


def shape_of(service: str, name: str) -> Any:
    """Return a shape of a service's model, for example CapacityReservation of ec2."""
    return _model(service).shape_for(name)


@cache
def _model(service: str) -> Any:
    from moto.core.utils import get_service_model

    return get_service_model(service)


def _rest_operation(service: str, method: str, path: str, query: str) -> str | None:
    """Return the operation of a REST request: the one whose path and parameters say the most.

    Of two with the same path, the shorter name is the one that all clients call: ListBuckets, not ListDirectoryBuckets.
    """
    asked = set(parse_qs(query, keep_blank_values=True))
    matching = [
        (len(needed), len(pattern.pattern), -len(name), name)
        for name, verb, pattern, needed in _rest_operations(service)
        if verb == method and needed <= asked and pattern.fullmatch(path)
    ]
    return max(matching)[-1] if matching else None


@cache
def _rest_operations(service: str) -> list[tuple[str, str, re.Pattern[str], frozenset[str]]]:
    from botocore.exceptions import UnknownServiceError

    found = []
    try:
        model = _model(service)
    except UnknownServiceError:
        return []
    for name in model.operation_names:
        http = model.operation_model(name).http
        uri, _, query = str(http.get("requestUri", "/")).partition("?")
        needed = frozenset(parse_qs(query, keep_blank_values=True)) if query else frozenset[str]()
        found.append((name, str(http.get("method")), _path_pattern(uri), needed))
    return found


@cache
def _path_pattern(uri: str) -> re.Pattern[str]:
    """Return the pattern of a path such as `/clusters/{name}/addons`, with a group for each parameter.

    An ARN has slashes, which the server has decoded.
    """
    pattern = re.sub(r"\\\{[^{}]+(\\\+|Arn)\\\}", "(.+)", re.escape(uri))
    return re.compile(re.sub(r"\\\{[^{}]+\\\}", "([^/]+)", pattern))
