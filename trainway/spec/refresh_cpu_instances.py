"""Write what EC2 answers about types without accelerators: `python -m trainway.spec.refresh_cpu_instances`.

cpu_instances.json then has EC2's answers in the Region of the environment, and keeps the types that are not offered
there. `python -m trainway.spec.refresh` compares the file, too. The exit status is 2 if EC2 did not answer.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.cpu_instances import COLUMNS, FILE, RecordedFacts, as_text, read_rows
from trainway.spec.refresh import Response, facts_of_answer

# General purpose, compute optimized, and memory optimized types of the fifth to the eighth generation.
FAMILIES = re.compile(r"[mcr][5-8][a-z0-9-]*")
SOURCE = {
    "url": "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html",
    "title": "Answers of EC2 DescribeInstanceTypes, and SageMaker's ClusterInstanceType as botocore has it (hyperpod)",
}


def rows_of(answers: Iterable[Response], hyperpod: Iterable[str]) -> dict[str, RecordedFacts]:
    """Return the line of each type of FAMILIES among EC2's answers. `hyperpod` lists the names that HyperPod takes."""
    taken, found = set(hyperpod), dict[str, RecordedFacts]()
    for answer in answers:
        name = answer["InstanceType"]
        if not FAMILIES.fullmatch(name.partition(".")[0]):
            continue
        facts: dict[str, Any] = {**facts_of_answer(answer), "hyperpod": int(f"ml.{name}" in taken)}
        (disk,) = answer.get("InstanceStorageInfo", {}).get("Disks", []) or [{"Count": 0, "SizeInGB": 0}]
        facts |= {"disks": disk["Count"], "gb_each": disk["SizeInGB"]}
        found[name] = [facts[column] for column in COLUMNS]
    return found


def ask() -> list[Response]:
    """Return what EC2 answers about the types of FAMILIES in the Region of the environment.

    Raises UsageError without credentials, a Region, or a network.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    named = [f"{letter}{number}*" for letter in "mcr" for number in range(5, 9)]
    try:
        client = boto3.client("ec2", config=Config(connect_timeout=10, retries={"total_max_attempts": 3}))
        pages = client.get_paginator("describe_instance_types").paginate(
            Filters=[{"Name": "instance-type", "Values": named}]
        )
        return [answer for page in pages for answer in page["InstanceTypes"]]
    except (BotoCoreError, ClientError) as error:
        raise usage_error(
            "EC2 could not be asked for its instance types",
            why=str(error),
            fix="set AWS_DEFAULT_REGION, and credentials that may call ec2:DescribeInstanceTypes, or AWS_PROFILE",
        ) from None


def hyperpod_names() -> list[str]:
    """Return the names of the types that HyperPod takes, by botocore's model of SageMaker."""
    from botocore.loaders import Loader

    shapes: Mapping[str, Any] = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    names: list[str] = shapes["ClusterInstanceType"]["enum"]
    return names


def main() -> int:
    """Write the file; the exit status says whether EC2 answered."""
    try:
        answers = ask()
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    found, kept = rows_of(answers, hyperpod_names()), read_rows()
    pages = [each for each in json.loads(FILE.read_text(encoding="utf-8"))["sources"] if each["url"] != SOURCE["url"]]
    sources = [SOURCE | {"read": datetime.now(UTC).date().isoformat()}, *pages]
    FILE.write_text(as_text(sources, kept | found), encoding="utf-8")
    print(
        f"{len(found)} types written, {len(kept.keys() - found.keys())} kept that EC2 did not answer", file=sys.stderr
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
