"""The account's quotas, against what the platform needs at its largest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from trainway.preflight.aws import NotAnswered
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error, not_checked, warning
from trainway.spec.capacity.quotas import QuotaNeed, quota_needs

DAY = timedelta(days=1)
# The states of a request that AWS has not decided.
OPEN = ("PENDING", "CASE_OPENED")
# Quotas without a metric of their use, and the calls that list what counts.
COUNTED = {
    "L-F678F1CE": ("ec2", "describe_vpcs", "Vpcs"),
    "L-0263D0A3": ("ec2", "describe_addresses", "Addresses"),
    "L-1194D53C": ("eks", "list_clusters", "clusters"),
}


@check(
    "servicequotas:GetServiceQuota",
    "servicequotas:ListServiceQuotas",
    "servicequotas:GetAWSDefaultServiceQuota",
    "servicequotas:ListRequestedServiceQuotaChangeHistoryByQuota",
    "cloudwatch:GetMetricData",
    "ec2:DescribeAddresses",
    "ec2:DescribeVpcs",
    "eks:ListClusters",
)
def quotas(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each quota of the account is as large as the platform at its largest needs."""
    names = dict[str, Mapping[str, dict[str, Any]]]()
    for need in quota_needs(inquiry.platform, inquiry.catalogue):
        quota = None
        if need.code:
            quota = _by_code(inquiry, need.service, need.code)
        else:
            if need.service not in names:
                names[need.service] = _by_name(inquiry, need.service)
            quota = names[need.service].get(need.name)
        if quota is None:
            yield not_checked(
                f"the quota {need.name or 'of an instance type'}",
                why=f"Service Quotas lists no quota of this name for {need.service} in {inquiry.aws.region}",
                fix=f"look for it in the console of Service Quotas: the platform needs {need.needed}",
            )
        else:
            yield from _judged(inquiry, need, quota)


def _judged(inquiry: Inquiry, need: QuotaNeed, quota: dict[str, Any]) -> Iterator[AccountFinding]:
    have, code, name = float(quota["Value"]), quota["QuotaCode"], need.name
    why = f"the platform needs {need.needed} at its largest, with every group at its max_count"
    if have < need.needed:
        if quota.get("Adjustable", True):
            more = _more(inquiry, need.service, code, need.needed)
        else:
            more = "use fewer or other nodes: AWS does not raise this quota"
        yield error(f"the quota {name} is {have:g}", why=why, fix=more)
        return
    used = _in_use(inquiry, quota)
    if used and have - used < need.needed and not inquiry.is_deployed:
        more = _more(inquiry, need.service, code, int(used) + need.needed)
        yield warning(f"of the quota {name}, which is {have:g}, {used:g} is in use", why=why, fix=more)


def _more(inquiry: Inquiry, service: str, code: str, wanted: int) -> str:
    """Return how to raise a quota to `wanted`: the command of a new request, or what to do about an open request."""
    request = _open_request(inquiry, service, code)
    if request:
        asked, day = float(request["DesiredValue"]), f"{request['Created']:%Y-%m-%d}"
        case = f" (support case {request['CaseId']})" if request.get("CaseId") else ""
        if asked >= wanted:
            return f"wait until AWS decides the request for {asked:g} of {day}{case}"
        return f"tell AWS in the request for {asked:g} of {day}{case} that you need {wanted}"
    return (
        f"aws service-quotas request-service-quota-increase --region {inquiry.aws.region} --service-code {service} "
        f"--quota-code {code} --desired-value {wanted}"
    )


def _open_request(inquiry: Inquiry, service: str, code: str) -> dict[str, Any] | None:
    """Return the largest request to raise a quota that AWS has not decided.

    Return None if there is no such request, or if the caller may not list requests.

    https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_RequestedServiceQuotaChange.html
    (botocore's model, read 2026-11-26)
    """
    try:
        pages = inquiry.aws.pages(
            "service-quotas",
            "list_requested_service_quota_change_history_by_quota",
            absent=["NoSuchResourceException"],
            ServiceCode=service,
            QuotaCode=code,
        )
    except NotAnswered:
        return None  # the size of the quota was compared
    requests = [each for page in pages for each in page["RequestedQuotas"] if each["Status"] in OPEN]
    return max(requests, key=lambda each: float(each["DesiredValue"]), default=None)


def _by_code(inquiry: Inquiry, service: str, code: str) -> dict[str, Any] | None:
    """Return the account's quota, or AWS's default for a quota that was never changed."""
    for operation in ("get_service_quota", "get_aws_default_service_quota"):
        absent = ["NoSuchResourceException"]
        found = inquiry.aws.ask("service-quotas", operation, ServiceCode=service, QuotaCode=code, absent=absent)
        if found:
            quota: dict[str, Any] = found["Quota"]
            return quota
    return None


def _by_name(inquiry: Inquiry, service: str) -> Mapping[str, dict[str, Any]]:
    pages = inquiry.aws.pages("service-quotas", "list_service_quotas", ServiceCode=service)
    return {each["QuotaName"]: each for page in pages for each in page["Quotas"] if "QuotaName" in each}


def _in_use(inquiry: Inquiry, quota: dict[str, Any]) -> float | None:
    """Return what is used now, or the largest use of the last day, of a quota whose use CloudWatch has."""
    if counted := COUNTED.get(quota["QuotaCode"]):
        service, operation, listed = counted
        try:
            return float(len((inquiry.aws.ask(service, operation) or {})[listed]))
        except NotAnswered:
            return None
    metric = quota.get("UsageMetric")
    if not metric or not metric.get("MetricName"):
        return None
    dimensions = [{"Name": name, "Value": value} for name, value in metric.get("MetricDimensions", {}).items()]
    asked = {"Namespace": metric["MetricNamespace"], "MetricName": metric["MetricName"], "Dimensions": dimensions}
    statistic = {"Metric": asked, "Period": 3600, "Stat": metric.get("MetricStatisticRecommendation", "Maximum")}
    try:
        answer = inquiry.aws.ask(
            "cloudwatch",
            "get_metric_data",
            MetricDataQueries=[{"Id": "used", "MetricStat": statistic}],
            StartTime=inquiry.now - DAY,
            EndTime=inquiry.now,
        )
    except NotAnswered:
        return None  # the size of the quota was compared
    values = [value for each in (answer or {})["MetricDataResults"] for value in each["Values"]]
    return max(values, default=None)
