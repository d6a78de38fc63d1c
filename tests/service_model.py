"""A strict reading of AWS's API models, which come with botocore.

botocore itself checks names, types, required members, and minima before it sends a request. It leaves maxima, patterns,
enumerations, and unions of several members to the service.
"""

from __future__ import annotations

import functools
from typing import Any

import botocore.session
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator, ValidationErrors

from emulator.api_limits import limits


@functools.cache
def service_model(service: str) -> ServiceModel:
    """Return the API model of a service, for example `sagemaker`."""
    return botocore.session.get_session().get_service_model(service)


def problems(service: str, operation: str, parameters: dict[str, Any]) -> list[str]:
    """Return what the API's model has against the parameters of a request, one line per problem."""
    return shape_problems(parameters, service_model(service).operation_model(operation).input_shape)


def shape_problems(value: Any, shape: Shape | None) -> list[str]:
    """Return what a shape of an API's model has against a value; an operation without input takes no parameters."""
    if shape is None:
        return ["the operation takes no parameters"] if value else []
    report = botocores_own(ParamValidator(), value, shape)
    return [report.generate_report()] if report.has_errors() else list(limits(value, shape, "it"))


botocores_own = ParamValidator.validate


def strict_validate(self: ParamValidator, params: Any, shape: Shape) -> ValidationErrors:
    """Validate a request as botocore does, and raise AssertionError for what botocore leaves to the service.

    `tests/conftest.py` puts this in the place of botocore's own, so that every request of every test is read whole.
    """
    report = botocores_own(self, params, shape)
    if not report.has_errors() and (found := list(limits(params, shape, "it"))):
        raise AssertionError(f"AWS would refuse this {shape.name}: {'; '.join(found)}")
    return report
