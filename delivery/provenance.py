"""Describes what an image was made of, as a statement of in-toto with the provenance that SLSA defines.

provenance.py files DIRECTORY DOCKERFILE prints the digests of what a build uses: the build context as one tree, the
Dockerfile, and the lists of packages.

provenance.py statement REPOSITORY TAG DIGEST FILES METADATA STARTED WORD... prints the statement. FILES is what `files`
printed before the build, METADATA the file that buildx wrote, STARTED a time in UTC, and each WORD one of buildx's.

https://slsa.dev/spec/v1.0/provenance and https://github.com/in-toto/attestation/tree/main/spec/v1 (read 2026-11-23)
"""

import base64
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
# BuildKit's name of its own kind of build: https://docs.docker.com/build/metadata/attestations/slsa-provenance/
BUILD_TYPE = "https://mobyproject.org/buildkit@v1"
# The key of BuildKit's own provenance in the file that buildx writes.
# https://docs.docker.com/reference/cli/docker/buildx/build/#metadata-file (read 2026-11-23)
OF_BUILDKIT = "buildx.build.provenance"
# Lists of packages, below the build context.
LISTS = ("container/requirements/*.txt", "additions/*.txt")
# What names an image below: the arguments of the Dockerfiles, and the build context that takes the place of a stage.
IMAGES_BELOW = ("BASE_IMAGE", "TRAINWAY_BASE", "libraries")

JsonObject = dict[str, Any]


def files_of(directory: Path, dockerfile: Path) -> list[JsonObject]:
    """Return the digests of what a build uses of a directory. The tree's is a hash of the names and their contents."""
    digests = {each.relative_to(directory).as_posix(): _sha256(each) for each in _files(directory)}
    tree = hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()
    lists = sorted(each for pattern in LISTS for each in directory.glob(pattern))
    return [
        {"name": "build context", "digest": {"sha256": tree}},
        {"name": "Dockerfile", "digest": {"sha256": _sha256(dockerfile)}},
        *({"name": each.relative_to(directory).as_posix(), "digest": {"sha256": _sha256(each)}} for each in lists),
    ]


def images_below(words: Iterable[str]) -> list[JsonObject]:
    """Return the images that a build begins with, from buildx's words. An image without a digest has none here."""
    found = []
    for word in words:
        name, _, value = word.partition("=")
        if name in IMAGES_BELOW and value:
            image, _, digest = value.removeprefix("docker-image://").partition("@sha256:")
            entry: JsonObject = {"uri": f"docker-image://{image}"}
            found.append(entry | ({"digest": {"sha256": digest}} if digest else {}))
    return found


def statement(
    *,
    repository: str,
    tag: str,
    digest: str,
    started: str,
    finished: str,
    files: Iterable[JsonObject],
    words: Iterable[str],
    buildkit: Mapping[str, Any] | None,
    environment: Mapping[str, str],
) -> JsonObject:
    """Return the statement about an image. `environment` is that of the build, which names it if CodeBuild runs it.

    https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html (read 2026-11-23)
    """
    words = list(words)
    arguments = [word.partition("=") for before, word in itertools.pairwise(words) if before == "--build-arg"]
    project = environment.get("CODEBUILD_BUILD_ARN", "").rpartition(":")[0]
    source = environment.get("CODEBUILD_RESOLVED_SOURCE_VERSION")
    details: JsonObject = {
        # A person's machine, such as that of delivery/supply.sh, has no name that anybody could check.
        "builder": {"id": project or "urn:trainway:supply"},
        "metadata": {
            "invocationId": environment.get("CODEBUILD_BUILD_ARN", ""),
            "startedOn": started,
            "finishedOn": finished,
        },
    }
    if buildkit is not None:
        content = base64.b64encode(json.dumps(buildkit).encode()).decode()
        details["byproducts"] = [
            {"name": "provenance of BuildKit", "mediaType": "application/json", "content": content}
        ]
    return {
        "_type": STATEMENT,
        "subject": [{"name": repository, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"tag": tag, "arguments": {name: value for name, _, value in arguments}},
                "resolvedDependencies": [
                    *images_below(words),
                    *files,
                    *([{"name": "source of the pipeline", "annotations": {"version": source}}] if source else []),
                ],
            },
            "runDetails": details,
        },
    }


def _files(directory: Path) -> list[Path]:
    return sorted(each for each in directory.rglob("*") if each.is_file() and not each.is_symlink())


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(what: str, *words: str) -> None:
    """Print what the command line asks for."""
    if what == "files":
        print(json.dumps(files_of(Path(words[0]), Path(words[1]))))
        return
    repository, tag, digest, files, metadata, started, *given = words
    # A builder without its own provenance writes none, or no file at all.
    written = json.loads(Path(metadata).read_text(encoding="utf-8")) if Path(metadata).exists() else {}
    described = statement(
        repository=repository,
        tag=tag,
        digest=digest,
        started=started,
        finished=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        files=json.loads(files),
        words=given,
        buildkit=written.get(OF_BUILDKIT),
        environment=os.environ,
    )
    print(json.dumps(described, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
