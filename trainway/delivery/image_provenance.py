"""What the image that jobs use was made of, as the stages that built it kept it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainway.delivery.images import PlatformImages, asked
from trainway.delivery.pipeline_run import MakeClient
from trainway.spec.errors import usage_error

JsonObject = dict[str, Any]


def provenance(client: MakeClient, images: PlatformImages) -> list[JsonObject]:
    """Return the statements about the image that jobs use and about the images below it, the highest first.

    A statement is one of in-toto with SLSA's provenance. An image of another registry has none here. Raises UsageError
    if the platform keeps none of the image in use, or AWS refuses.
    """
    bill = re.fullmatch(r"s3://([^/]+)/(.+)/[^/]+", images.built.bill or "")
    if images.is_users or bill is None:
        why = "the deploy did not build it" if images.is_users else "the deploy that built it kept none"
        fix = "ask whoever builds it" if images.is_users else "deploy again"
        raise usage_error(f"there is no provenance of {images.pinned}", why=why, fix=fix)
    found, digests = list[JsonObject](), [images.pinned.rpartition("@sha256:")[2]]
    while digests:
        statement = _statement(client, bill[1], f"{bill[2]}/{digests.pop(0)}.provenance.json")
        if statement is not None:
            found.append(statement)
            digests += [each["digest"]["sha256"] for each in _images_of_the_platform(statement, images)]
        elif not found:
            raise usage_error(
                f"there is no provenance of {images.pinned}",
                why=f"s3://{bill[1]}/{bill[2]} has none: an earlier version of Trainway, or another platform built it",
                fix="run this on the platform that built it, or build it again with `trainway image rebuild --again`",
            )
    return found


def provenance_text(statements: Sequence[Mapping[str, Any]]) -> str:
    """Return what `trainway image provenance` prints: a paragraph for each image."""
    return "\n\n".join(map(_paragraph, statements))


def _paragraph(statement: Mapping[str, Any]) -> str:
    (subject,), predicate = statement["subject"], statement["predicate"]
    made, ran = predicate["buildDefinition"], predicate["runDetails"]
    rows = [
        ("content hash", made["externalParameters"]["tag"]),
        ("built", f"{ran['metadata']['startedOn']} to {ran['metadata']['finishedOn']}"),
        ("build", ran["metadata"]["invocationId"] or "not by CodeBuild"),
    ]
    for each in made["resolvedDependencies"]:
        digest = f"sha256:{each['digest']['sha256']}" if "digest" in each else None
        if "uri" in each:
            below = each["uri"].removeprefix("docker-image://")
            rows.append(("image below", f"{below}@{digest}" if digest else below))
        else:
            rows.append((each["name"], digest or each.get("annotations", {}).get("version", "not known")))
    for each in ran.get("byproducts", ()):
        materials = json.loads(base64.b64decode(each["content"])).get("materials", ())
        rows += [("fetched by BuildKit", material["uri"]) for material in materials]
    width = max(len(name) for name, _ in rows)
    head = f"{subject['name']}@sha256:{subject['digest']['sha256']}"
    return "\n".join((head, *(f"  {name.ljust(width)}  {value}" for name, value in rows)))


def _images_of_the_platform(statement: Mapping[str, Any], images: PlatformImages) -> list[JsonObject]:
    """Return the images below one that are in the platform's own registry, by a digest."""
    registry = images.built.pinned.partition("/")[0]
    below = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    own = f"docker-image://{registry}/"
    return [each for each in below if "digest" in each and each.get("uri", "").startswith(own)]


def _statement(client: MakeClient, bucket: str, key: str) -> JsonObject | None:
    from botocore.exceptions import ClientError

    def get() -> JsonObject | None:
        try:
            stored = client("s3").get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                return None
            raise
        statement: JsonObject = json.loads(stored["Body"].read())
        return statement

    found: JsonObject | None = asked(get)
    return found
