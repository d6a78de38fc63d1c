"""The tags of the training image and of its base are functions of what is in them, and of nothing else."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest
import yaml

from delivery.content_hash import SOURCES, TARGETS, image_hash
from delivery.dockerfile import made
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.versions import VERSIONS_FILE
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

ROOT = Path(__file__).resolve().parents[2]
TYPES = {"cuda": "p5.48xlarge", "cpu": "m7i.8xlarge", "neuron": "trn1.32xlarge"}
Tags = tuple[str, str]


@functools.cache
def arguments(variant: str = "cuda", versions: Path = VERSIONS_FILE, add: tuple[str, ...] = ()) -> dict[str, str]:
    """The arguments that a deploy chooses."""
    image = {"add": list(add)}
    group = {"name": "train", "instance_type": TYPES[variant], "count": 1}
    base = {"base": "example.org/neuron:1@sha256:" + "0" * 64} if variant == "neuron" else {}
    sections = {"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group], "image": base | image}
    return build_arguments(Platform.model_validate(sections), load_catalogue(), load_versions(versions))


def tags(root: Path, of: dict[str, str]) -> Tags:
    """The tags of the base and of the image."""
    return image_hash(root, "base", of), image_hash(root, "image", of)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for part in SOURCES:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
        copy(ROOT / part, tmp_path / part)
    return tmp_path


def edited(checkout: Path, file: str, old: str, new: str) -> None:
    """Replace the first `old` in a file of a checkout."""
    text = (checkout / file).read_text(encoding="utf-8")
    assert old in text
    (checkout / file).write_text(text.replace(old, new, 1), encoding="utf-8")


def test_another_line_of_the_job_is_another_image_on_the_same_base(checkout: Path) -> None:
    base, image = tags(checkout, arguments())
    edited(checkout, "training/train.py", "import", "import sys\nimport")
    assert tags(checkout, arguments())[0] == base
    assert tags(checkout, arguments())[1] != image


DOCKERFILE, TRAINING = "container/Dockerfile", "container/requirements/training.txt"
TORCH, NEMO = "container/requirements/pytorch-2.11.0.txt", "container/requirements/nemo-0.7.0.txt"
SETTING = ("pyproject.toml", "[project]", "[tool.more]\na = 1\n[project]")
DEPENDENCY = ("pyproject.toml", "\ntraining = [", '\ntraining = [\n  "more",')
NOT_CONTENT = {
    "a comment of the Dockerfile": (DOCKERFILE, "\n# Package lists", "\n# More.\n# Package lists"),
    "how the Dockerfile breaks its lines": (DOCKERFILE, " \\\n    && ", " && \\\n    "),
    "a comment of a list of packages": (TRAINING, "#", "# More.\n#"),
    "the list of another PyTorch": (TORCH, "==", "==1."),
    "the list of an add-on that is not chosen": (NEMO, "==", "==1."),
    "a stage of another variant": (DOCKERFILE, "AS packages-neuron\n", "AS packages-neuron\nENV MORE=1\n"),
    "what pyproject.toml says of the checkout": SETTING,
    "the packages in pyproject.toml, which the lists have by checksum": DEPENDENCY,
}


@pytest.mark.parametrize("name", NOT_CONTENT)
def test_what_is_not_in_the_image_leaves_both_tags(checkout: Path, name: str) -> None:
    before = tags(checkout, arguments())
    edited(checkout, *NOT_CONTENT[name])
    assert tags(checkout, arguments()) == before


def test_when_a_source_was_read_leaves_both_tags(tmp_path: Path) -> None:
    matrix = yaml.safe_load(VERSIONS_FILE.read_text(encoding="utf-8"))
    file = tmp_path / "versions.yaml"
    text = yaml.safe_dump(matrix, default_flow_style=None, width=1000)
    file.write_text(re.sub(r"read: 20\d\d-\d\d-\d\d", "read: 2026-12-31", text), encoding="utf-8")
    assert "2026-12-31" in file.read_text(encoding="utf-8")
    assert tags(ROOT, arguments(versions=file)) == tags(ROOT, arguments())


CONTENT = {
    "an instruction of the base": (DOCKERFILE, " gcc libc6-dev", " gcc g++ libc6-dev"),
    "a variable of the environment": (DOCKERFILE, "OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2"),
    "a package": (TRAINING, "==", "==1."),
    "a stage that a file is taken from": (DOCKERFILE, "make --jobs", "make --silent --jobs"),
    "how a build verifies itself": ("container/verify_image.py", '"""', '"""More. '),
}


@pytest.mark.parametrize("name", CONTENT)
def test_what_is_in_the_base_is_in_both_tags(checkout: Path, name: str) -> None:
    base, image = tags(checkout, arguments())
    edited(checkout, *CONTENT[name])
    new_base, new_image = tags(checkout, arguments())
    assert base != new_base and image != new_image


def test_a_label_is_another_image_on_the_same_base(checkout: Path) -> None:
    base, image = tags(checkout, arguments())
    edited(checkout, DOCKERFILE, "Apache-2.0", "MIT")
    assert tags(checkout, arguments())[0] == base
    assert tags(checkout, arguments())[1] != image


def test_a_neuron_image_is_made_of_the_jobs_packages_in_pyproject(checkout: Path) -> None:
    before = tags(checkout, arguments("neuron"))
    edited(checkout, *SETTING)
    assert tags(checkout, arguments("neuron")) == before
    edited(checkout, *DEPENDENCY)
    assert tags(checkout, arguments("neuron"))[0] != before[0]


@pytest.mark.parametrize("add", [(), ("transformer-engine",)], ids=str)
def test_arguments_of_what_is_not_built_leave_both_tags(add: tuple[str, ...]) -> None:
    before = arguments(add=add)
    other = before | {"TRANSFORMER_ENGINE_SHA256": "0" * 64, "UNKNOWN": "1"}
    assert (tags(ROOT, other) == tags(ROOT, before)) == (not add)


def test_layers_that_are_compressed_otherwise_are_other_images() -> None:
    zstd = arguments()
    gzip = zstd | {"LAYER_COMPRESSION": "gzip"}
    assert not set(tags(ROOT, zstd)) & set(tags(ROOT, gzip))


@pytest.mark.parametrize("variant", TYPES)
def test_every_file_that_a_build_uses_is_in_the_checkout_and_given_to_the_build(variant: str) -> None:
    text = (ROOT / "container/Dockerfile").read_text(encoding="utf-8")
    for target in TARGETS.values():
        used = made(text, target, arguments(variant))
        assert all((ROOT / file).exists() for file in used.files), used.files
        assert all(any(Path(file).is_relative_to(part) for part in SOURCES) for file in used.files)
        named = {name for each in used.instructions for name in re.findall(r"^ARG (\w+)$", each)}
        assert named - used.arguments.keys() <= {"IMAGE_REVISION"}
