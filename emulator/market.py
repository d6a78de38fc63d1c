"""What AWS sells, when, and for how much: price lists, offerings of capacity, Spot prices, and quotas.

A test sets them. moto has none of these operations but DescribeSpotPriceHistory, which it answers with random prices.
Requests are read, and responses written, by botocore's models: a field that the API does not have reaches no client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from moto.core.model import ServiceModel

HttpAnswer = tuple[int, bytes, str]
JsonObject = dict[str, Any]
# The services of the operations, by the name that requests are signed with.
SIGNED_AS = {"pricing": "pricing", "ec2": "ec2", "sagemaker": "sagemaker", "servicequotas": "service-quotas"}
# The most products of a page. The Price List API's own pages have 100.
_PAGE = 2
# Where an offering has the fields that a request asks about, by the names of the request.
_ASKED = {
    "InstanceType": "InstanceType",
    "InstanceCount": "InstanceCount",
    "CapacityDurationHours": "CapacityBlockDurationHours",
}


@dataclass
class Market:
    """What is for sale by Region, in the shapes of the API's responses, and what was bought."""

    goods: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    bought: list[dict[str, Any]] = field(default_factory=list)

    def publish(self, region: str, what: dict[str, list[dict[str, Any]]]) -> None:
        """Set the goods of a Region by kind.

        The kinds are `price_list`, `capacity_block_offerings`, `capacity_block_extensions`, `training_plan_offerings`,
        `training_plan_extensions`, `training_plans`, `capacity_reservations`, `spot_prices`, `placement_scores`, and
        `quotas`.
        """
        self.goods[region] = what

    def answer(self, service: str, region: str, target: str, body: bytes) -> HttpAnswer | None:
        """Return the response to a request, or None if moto answers it."""
        name = SIGNED_AS.get(service)
        if name is None or not self.goods:
            return None
        form = dict(parse_qsl(body.decode())) if service == "ec2" else json.loads(body or b"{}")
        operation = form["Action"] if service == "ec2" and "Action" in form else target.rpartition(".")[2]
        function = _OPERATIONS.get((name, operation))
        if function is None:
            return None
        shapes = _model(name).operation_model(operation)
        asked = _parse(shapes.input_shape, form) if service == "ec2" else form
        answered = function(self, self.goods.get(region, {}), asked or {})
        return _response(name, operation, _typed(shapes.output_shape, answered))


def _get_products(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    wanted = [(each["Field"], each["Value"]) for each in asked.get("Filters", [])]
    found = [
        json.dumps(product)
        for product in goods.get("price_list", [])
        if product["serviceCode"] == asked["ServiceCode"]
        and all({**product["product"], **product["product"]["attributes"]}.get(key) == value for key, value in wanted)
    ]
    start = int(asked.get("NextToken", 0))
    page: JsonObject = {"FormatVersion": "aws_v1", "PriceList": found[start : start + _PAGE]}
    return page | ({"NextToken": str(start + _PAGE)} if len(found) > start + _PAGE else {})


def _capacity_blocks(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    offered = goods.get("capacity_block_offerings", [])
    fits = [each for each in offered if all(each[own] == asked[key] for key, own in _ASKED.items() if key in asked)]
    return {"CapacityBlockOfferings": [each for each in fits if _within(each, asked, "StartDateRange", "EndDateRange")]}


def _purchase_capacity_block(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    (offering,) = (
        each
        for each in goods["capacity_block_offerings"]
        if each["CapacityBlockOfferingId"] == asked["CapacityBlockOfferingId"]
    )
    reservation = {
        "CapacityReservationId": f"cr-{len(market.bought):017x}",
        "InstanceType": offering["InstanceType"],
        "AvailabilityZone": offering["AvailabilityZone"],
        "TotalInstanceCount": offering["InstanceCount"],
        "AvailableInstanceCount": 0,
        "StartDate": offering["StartDate"],
        "EndDate": offering["EndDate"],
        "State": "payment-pending",
        "ReservationType": "capacity-block",
    }
    goods.setdefault("capacity_reservations", []).append(reservation)
    market.bought.append({"operation": "PurchaseCapacityBlock", **asked})
    return {"CapacityReservation": reservation}


def _capacity_reservations(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    wanted = asked.get("CapacityReservationIds")
    found = goods.get("capacity_reservations", [])
    return {"CapacityReservations": [each for each in found if not wanted or each["CapacityReservationId"] in wanted]}


def _block_extensions(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    return {
        "CapacityBlockExtensionOfferings": [
            each
            for each in goods.get("capacity_block_extensions", [])
            if each["CapacityBlockExtensionDurationHours"] == asked["CapacityBlockExtensionDurationHours"]
        ]
    }


def _purchase_block_extension(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    (offering,) = (
        each
        for each in goods["capacity_block_extensions"]
        if each["CapacityBlockExtensionOfferingId"] == asked["CapacityBlockExtensionOfferingId"]
    )
    market.bought.append({"operation": "PurchaseCapacityBlockExtension", **asked})
    reservation = {"CapacityReservationId": asked["CapacityReservationId"]}
    return {"CapacityBlockExtensions": [offering | reservation | {"CapacityBlockExtensionStatus": "payment-pending"}]}


def _placement_scores(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    regions = asked.get("RegionNames")
    return {
        "SpotPlacementScores": [
            each for each in goods.get("placement_scores", []) if not regions or each["Region"] in regions
        ]
    }


def _spot_prices(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    types = asked.get("InstanceTypes", [])
    return {"SpotPriceHistory": [each for each in goods.get("spot_prices", []) if each["InstanceType"] in types]}


def _training_plans(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    if "TrainingPlanArn" in asked:
        extensions = goods.get("training_plan_extensions", [])
        return {"TrainingPlanOfferings": [], "TrainingPlanExtensionOfferings": extensions}
    return {
        "TrainingPlanOfferings": [
            offering
            for offering in goods.get("training_plan_offerings", [])
            if all(
                reserved["InstanceType"] == asked.get("InstanceType", reserved["InstanceType"])
                and reserved["InstanceCount"] == asked.get("InstanceCount", reserved["InstanceCount"])
                for reserved in offering["ReservedCapacityOfferings"]
            )
            and set(asked.get("TargetResources", [])) <= set(offering["TargetResources"])
        ]
    }


def _create_training_plan(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    (offering,) = (
        each
        for each in goods["training_plan_offerings"]
        if each["TrainingPlanOfferingId"] == asked["TrainingPlanOfferingId"]
    )
    arn = f"arn:aws:sagemaker:us-west-2:123456789012:training-plan/{asked['TrainingPlanName']}"
    goods.setdefault("training_plans", []).append(
        {
            "TrainingPlanArn": arn,
            "TrainingPlanName": asked["TrainingPlanName"],
            "Status": "Pending",
            "StartTime": offering["RequestedStartTimeAfter"],
            "EndTime": offering["RequestedEndTimeBefore"],
            "ReservedCapacitySummaries": [
                {
                    "ReservedCapacityArn": f"{arn}-{number}",
                    "Status": "Pending",
                    "InstanceType": reserved["InstanceType"],
                    "TotalInstanceCount": reserved["InstanceCount"],
                    "AvailabilityZone": reserved["AvailabilityZone"],
                }
                for number, reserved in enumerate(offering["ReservedCapacityOfferings"])
            ],
        }
    )
    market.bought.append({"operation": "CreateTrainingPlan", **asked})
    return {"TrainingPlanArn": arn}


def _extend_training_plan(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    market.bought.append({"operation": "ExtendTrainingPlan", **asked})
    return {"TrainingPlanExtensions": goods.get("training_plan_extensions", [])}


def _describe_training_plan(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    (plan,) = (each for each in goods["training_plans"] if each["TrainingPlanName"] == asked["TrainingPlanName"])
    return dict(plan)


def _service_quota(market: Market, goods: JsonObject, asked: JsonObject) -> JsonObject:
    del market
    found = [each for each in goods.get("quotas", []) if each["QuotaCode"] == asked["QuotaCode"]]
    return {"Quota": found[0] if found else {"QuotaCode": asked["QuotaCode"], "Value": 0}}


_OPERATIONS: dict[tuple[str, str], Callable[[Market, JsonObject, JsonObject], JsonObject]] = {
    ("pricing", "GetProducts"): _get_products,
    ("ec2", "DescribeCapacityBlockOfferings"): _capacity_blocks,
    ("ec2", "PurchaseCapacityBlock"): _purchase_capacity_block,
    ("ec2", "DescribeCapacityReservations"): _capacity_reservations,
    ("ec2", "DescribeCapacityBlockExtensionOfferings"): _block_extensions,
    ("ec2", "PurchaseCapacityBlockExtension"): _purchase_block_extension,
    ("ec2", "GetSpotPlacementScores"): _placement_scores,
    ("ec2", "DescribeSpotPriceHistory"): _spot_prices,
    ("sagemaker", "SearchTrainingPlanOfferings"): _training_plans,
    ("sagemaker", "CreateTrainingPlan"): _create_training_plan,
    ("sagemaker", "ExtendTrainingPlan"): _extend_training_plan,
    ("sagemaker", "DescribeTrainingPlan"): _describe_training_plan,
    ("service-quotas", "GetServiceQuota"): _service_quota,
}


def _within(offering: JsonObject, asked: JsonObject, start: str, end: str) -> bool:
    after = asked.get(start, "0")
    before = asked.get(end, "9")
    return str(offering["StartDate"]) >= str(after) and str(offering["EndDate"]) <= str(before)


@cache
def _model(service: str) -> ServiceModel:
    from botocore.loaders import Loader

    # moto's serializers take its own subclasses of botocore's shapes.
    from moto.core.model import ServiceModel

    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


def _response(service: str, operation: str, answered: JsonObject) -> HttpAnswer:
    from moto.core.serialize import get_serializer_class

    model = _model(service)
    protocol = model.resolved_protocol if hasattr(model, "resolved_protocol") else model.metadata["protocol"]
    made = get_serializer_class(service, protocol)(model.operation_model(operation)).serialize(answered)
    body = made["body"]
    kind = "text/xml" if protocol == "ec2" else "application/x-amz-json-1.1"
    return made["status_code"], body if isinstance(body, bytes) else str(body).encode(), kind


def _parse(shape: Any, form: JsonObject, prefix: str = "") -> Any:
    """Return the value at a prefix of an EC2 request (`Filter.1.Name=…`) by its shape, or None if it is missing."""
    if shape.type_name == "structure":
        found = {
            name: _parse(member, form, f"{prefix}{_query_name(name, member)}.")
            for name, member in shape.members.items()
        }
        return {name: value for name, value in found.items() if value is not None} or None
    if shape.type_name == "list":
        return list(_items(shape.member, form, prefix)) or None
    text = form.get(prefix.removesuffix("."))
    if text is None:
        return None
    if shape.type_name == "boolean":
        return text == "true"
    return int(text) if shape.type_name in ("integer", "long") else text


def _items(shape: Any, form: JsonObject, prefix: str) -> Iterator[Any]:
    number = 1
    while (item := _parse(shape, form, f"{prefix}{number}.")) is not None:
        yield item
        number += 1


def _query_name(name: str, shape: Any) -> str:
    serialization = shape.serialization
    if "queryName" in serialization:
        return str(serialization["queryName"])
    spelled = str(serialization.get("name", name))
    return spelled[0].upper() + spelled[1:]


def _typed(shape: Any, value: Any) -> Any:
    """Return a value with datetimes where the API has them. Raises KeyError for a field that it does not have."""
    if shape.type_name == "structure":
        return {name: _typed(shape.members[name], each) for name, each in value.items()}
    if shape.type_name == "list":
        return [_typed(shape.member, each) for each in value]
    if shape.type_name == "timestamp" and isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    return value
