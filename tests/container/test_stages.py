"""An image is built on a base that is there, so nothing after the base may be fetched, or run on the builder."""

import re
from pathlib import Path
from typing import get_args

import pytest

from trainway.spec.sections.image import ImageVariant

DOCKERFILE = (Path(__file__).resolve().parents[2] / "container/Dockerfile").read_text()
VARIANTS = get_args(ImageVariant)
FETCHES = re.compile(r"\b(apt|apt-get|pip3?|uv|conda|npm|curl|wget|git)\b|\b(https?|ftp|ssh|git)://")


def fetching(dockerfile: str) -> list[str]:
    """The instructions after the base that fetch or run, or that need an image or a stage from before it."""
    kept = [line for line in dockerfile.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    last = "\nFROM environment-${LAYOUT} AS libraries"
    _, _, stage = "\n".join(kept).replace("\\\n", " ").partition(last)
    _, _, rest = stage.partition("\nFROM ")
    found, there = [], {"libraries", "scratch"}
    assert rest, "the stage `libraries` is not there"
    for instruction in f"FROM {rest}".splitlines():
        used = re.findall(r"^FROM (?:--\S+ )*(\S+)", instruction) + re.findall(r"\bfrom=([^\s,]+)", instruction)
        needed = {name.replace("${VARIANT}", variant) for name in used for variant in VARIANTS}
        if FETCHES.search(instruction) or instruction.startswith("RUN ") or not there.issuperset(needed):
            found.append(instruction)
        there.update(re.findall(r"^FROM .* AS (\S+)$", instruction))
    return found


def test_no_frontend_is_fetched_to_read_the_dockerfile():
    assert re.findall(r"^#\s*syntax\s*=.*", DOCKERFILE, re.MULTILINE | re.IGNORECASE) == []


def test_nothing_is_fetched_or_run_after_the_base():
    assert "\nFROM libraries AS training\n" in DOCKERFILE
    assert fetching(DOCKERFILE) == []


@pytest.mark.parametrize(
    "instruction",
    [
        "RUN apt-get update",
        "RUN true",
        "RUN true && pip install torch",
        "RUN python -m \\\n    pip install torch",
        "RUN curl --remote-name example.org/x",
        "ADD https://example.org/x.tar.gz /x.tar.gz",
        "ADD git@example.org:x/y.git /y",
        "COPY --from=docker.io/library/busybox:1 /bin/sh /bin/sh",
        "COPY --from=efa-installer /efa-installer.tar.gz /x",
        "RUN --mount=type=bind,from=network-cuda,target=/network true",
        "FROM network-${VARIANT} AS last",
        "FROM ${BASE_IMAGE} AS last",
        "FROM --platform=linux/amd64 base AS last",
    ],
)
def test_an_instruction_that_would_fetch_is_found(instruction: str):
    assert len(fetching(f"{DOCKERFILE}\n{instruction}\n")) == 1


def test_every_package_of_pip_is_installed_by_its_checksum():
    folder = Path(__file__).resolve().parents[2] / "container"
    texts = [file.read_text() for file in (*folder.glob("*Dockerfile"), folder / "install_part.sh")]
    installs = [each for text in texts for each in text.replace("\\\n", " ").splitlines() if "pip install" in each]
    assert sum(each.count("pip install") for each in installs) >= 9
    for each in installs:
        options = [words.split() for words in each.split("pip install")[1:]]
        assert all({"--no-deps", "--require-hashes"} <= set(words) for words in options), each


def test_a_stage_on_the_last_one_is_fine():
    assert fetching(f"{DOCKERFILE}\nFROM training AS last\nCOPY --from=libraries /a /b\n") == []
