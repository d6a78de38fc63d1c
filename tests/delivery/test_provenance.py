"""Each stage that pushes an image keeps what the image was made of, by the digest of the image."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from delivery.provenance import PREDICATE, STATEMENT
from tests.delivery.conftest import IMAGE_ARGUMENTS, Workshop
from tests.delivery.test_image import IMAGE, REGISTRY

BASE, TRAINING = f"{REGISTRY}/atlas/mirror/training-base", f"{REGISTRY}/atlas/training"
BUILD = {
    "CODEBUILD_BUILD_ARN": "arn:aws:codebuild:us-west-2:111122223333:build/atlas-image:1",
    "CODEBUILD_RESOLVED_SOURCE_VERSION": "version-of-the-bundle",
}


def built(aws: Workshop, **variables: str) -> dict[str, Any]:
    """Run the base stage and the image stage; return the statements by the name of the repository."""
    for script in ("base.sh", "image.sh"):
        done = aws.run(script, **{**IMAGE, **BUILD, **variables})
        assert done.returncode == 0, done.stderr
    kept = [json.loads(each.read_text()) for each in (aws.root / "s3").glob("*.provenance.json")]
    return {each["subject"][0]["name"]: each for each in kept}


def materials(statement: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a statement says that its image was made of."""
    found: list[dict[str, Any]] = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    return found


def test_an_image_and_its_base_have_a_statement_about_their_builds(aws: Workshop) -> None:
    statements = built(aws)
    assert set(statements) == {BASE, TRAINING}
    for statement in statements.values():
        assert (statement["_type"], statement["predicateType"]) == (STATEMENT, PREDICATE)
        assert statement["predicate"]["runDetails"]["metadata"]["invocationId"] == BUILD["CODEBUILD_BUILD_ARN"]
    made = statements[TRAINING]["predicate"]["buildDefinition"]
    assert made["externalParameters"]["tag"] == "c0ffee"
    assert made["externalParameters"]["arguments"] == {**IMAGE_ARGUMENTS, "IMAGE_REVISION": "c0ffee"}
    assert {"uri": f"docker-image://{BASE}", "digest": statements[BASE]["subject"][0]["digest"]} in materials(
        statements[TRAINING]
    )
    assert {"uri": "docker-image://ubuntu:24.04", "digest": {"sha256": "0"}} in materials(statements[BASE])


def test_a_statement_has_the_digests_of_the_dockerfile_and_of_the_lists_of_packages(aws: Workshop) -> None:
    made = materials(built(aws)[BASE])
    digests = {each["name"]: each["digest"]["sha256"] for each in made if "name" in each and "digest" in each}
    container = aws.root / "container"
    assert digests["Dockerfile"] == hashlib.sha256((container / "Dockerfile").read_bytes()).hexdigest()
    lists = {f"container/requirements/{each.name}": each for each in (container / "requirements").glob("*.txt")}
    assert lists and {name: hashlib.sha256(each.read_bytes()).hexdigest() for name, each in lists.items()} == {
        name: digest for name, digest in digests.items() if name.startswith("container/requirements/")
    }
    assert {"name": "source of the pipeline", "annotations": {"version": "version-of-the-bundle"}} in made


def test_the_digest_of_the_build_context_follows_its_content(aws: Workshop) -> None:
    def context() -> str:
        found = materials(built(aws)[BASE])
        # The next build begins with nothing.
        for each in (*(aws.root / "ecr").rglob("*"), *(aws.root / "s3").iterdir()):
            if each.is_file():
                each.unlink()
        return next(str(each["digest"]["sha256"]) for each in found if each.get("name") == "build context")

    first = context()
    assert context() == first
    (aws.root / "container/verify_image.py").write_text("")
    assert context() != first


@pytest.mark.parametrize("without", ["", "yes"])
def test_the_provenance_of_buildkit_is_kept_where_the_builder_has_one(aws: Workshop, without: str) -> None:
    for statement in built(aws, WITHOUT_PROVENANCE=without).values():
        kept = statement["predicate"]["runDetails"].get("byproducts", [])
        contents = [json.loads(base64.b64decode(each["content"])) for each in kept]
        assert contents == ([] if without else [{"materials": [{"uri": "pkg:docker/ubuntu@24.04"}]}])


def test_an_image_whose_provenance_cannot_be_kept_fails_the_stage(aws: Workshop) -> None:
    assert aws.run("base.sh", **IMAGE).returncode == 0
    tool, refused = aws.root / "bin/aws", '[[ "$1 $2" != "s3 cp" ]] || { echo AccessDenied >&2; exit 1; }'
    tool.write_text(tool.read_text().replace('case "$1 $2" in', f'{refused}\ncase "$1 $2" in', 1))
    done = aws.run("image.sh", **IMAGE)
    assert done.returncode == 1
    assert f"what {TRAINING}:c0ffee was made of is not kept at s3://bucket/mirror/bills" in done.stderr
