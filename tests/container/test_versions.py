"""The image's versions: pinned, sourced, released to go together, and the ones that its Dockerfile asks for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from delivery.dockerfile import made
from docs.generators.versions_page import PAGE, written
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.versions import VERSIONS_FILE, combination_named
from trainway.spec.image.compatibility import fabric_of, gin_lacks, nccl_level
from trainway.spec.image.image_build import build_arguments, variant_of
from trainway.spec.image.image_notes import unverified
from trainway.spec.image.rules import an_image_can_have_the_agent
from trainway.spec.image.version_rules import VERSION_RULES
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError
from trainway.spec.sections.image import ImageVariant

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "container/Dockerfile").read_text()
MATRIX = VERSIONS_FILE.read_text(encoding="utf-8")
VERSIONS = yaml.safe_load(MATRIX)
LISTS = frozenset(file.name for file in (ROOT / "container/requirements").iterdir())
SECTIONS = VERSIONS.keys() - {"default", "channels", "combinations"}
PUBLISHED = [entry for key in sorted(SECTIONS) for entry in VERSIONS[key]]
# What the stage gives, and what delivery/build_tool.sh reads itself.
OF_THE_STAGE, OF_THE_SCRIPT = {"IMAGE_REVISION"}, {"LAYER_COMPRESSION"}
INSTANCES = {"cuda": "p5.48xlarge", "neuron": "trn1.32xlarge", "cpu": "m7i.8xlarge"}
PINNED = "public.ecr.aws/neuron/pytorch-training-neuronx:2.9.0@sha256:" + "0" * 64


def platform(*variants: str, **image: Any) -> Platform:
    """A platform whose node groups are for the variants."""
    groups = [{"name": variant, "instance_type": INSTANCES[variant], "count": 1} for variant in variants]
    return Platform.model_validate(
        {"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": groups, "image": image}
    )


def arguments(*variants: str, **image: Any) -> dict[str, str]:
    return build_arguments(platform(*variants, **image), load_catalogue(), load_versions())


def test_hadolint_finds_nothing():
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", ROOT / "container/Dockerfile"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry.get("version") or entry["name"])
def test_every_release_names_its_source_and_the_day_it_was_read(entry: dict[str, Any]):
    assert entry["source"].startswith(("https://", "Python Package Index, "))
    assert entry["read"].isoformat() >= "2026-01-01"


def test_there_is_a_choice_and_every_one_of_it_passes_the_rules():
    versions = load_versions(lists=LISTS)
    assert len(versions.combinations) >= 2
    assert [breach for rule in VERSION_RULES for breach in rule(versions)] == []


def test_every_release_is_in_a_combination_or_can_wait_for_one():
    """Below PyTorch, a release is listed as soon as it is published, and has no list of packages."""
    waiting = {"efa_installers", "aws_ofi_nccl", "nccl", "nccl_tests"}
    used = {str(value) for combination in VERSIONS["combinations"] for value in combination.values()}
    listed = {entry.get("version") or entry["name"] for key in SECTIONS - waiting for entry in VERSIONS[key]}
    assert listed <= used


@pytest.mark.parametrize("channel", ["stable", "current", "edge"])
def test_a_channel_is_the_same_image_as_its_combination(channel: str):
    name = VERSIONS["channels"][channel]
    assert arguments("cuda", versions=channel) == arguments("cuda", versions=name)
    assert arguments("cuda", versions=channel)["MATRIX_NAME"] == name


def test_the_channels_keep_their_promises():
    """stable is tested, current has the newest PyTorch, and edge has what GIN requires."""
    versions = load_versions()
    found = {}
    for name in ("stable", "current", "edge"):
        chosen = combination_named(versions, name)
        fabric = chosen and fabric_of(versions, chosen)
        assert chosen and fabric
        found[name] = (chosen, nccl_level(fabric), gin_lacks(fabric, chosen.gdrcopy))
    newest = max(versions.pytorch, key=lambda wheel: [int(part) for part in wheel.version.split(".")])
    assert found["stable"][1] == "tested"
    assert found["current"][0].pytorch == newest.version
    assert [found[name][2] is None for name in found] == [False, False, True]


def test_an_nccl_in_place_of_pytorchs_is_installed_last_and_by_its_checksum():
    replaced, own = (arguments("cuda", versions=name) for name in ("pytorch-2.15-nccl-2.31", "pytorch-2.15"))
    assert (replaced["NCCL"], replaced["NCCL_VERSION"]) == ("replaced", "2.31.2")
    assert (own["NCCL"], own["NCCL_VERSION"], own["NCCL_SHA256"]) == ("required", "2.30.7", "")
    last = [each for each in made(DOCKERFILE, "libraries", replaced).instructions if "nvidia-nccl-cu" in each]
    assert len(last) == 1 and replaced["NCCL_SHA256"] == VERSIONS["nccl"][0]["sha256"]
    assert not [each for each in made(DOCKERFILE, "libraries", own).instructions if "nvidia-nccl-cu" in each]
    assert arguments("cpu", versions="pytorch-2.15-nccl-2.31")["NCCL"] == "required"


@pytest.mark.parametrize(
    ("versions", "notes"),
    [
        (None, []),
        ("stable", []),
        ("pytorch-2.15", ["AWS tested aws-ofi-nccl 1.21.1 with 2.31.2, and calls it", "has not been built"]),
        ("pytorch-2.15-nccl-2.31", ["nobody says that it was tested with 2.31.2"]),
        ("pytorch-2.12", ["no node with EFA has run it"]),
    ],
)
def test_check_says_what_nobody_verified_of_a_combination(versions: str | None, notes: list[str]):
    image = {"versions": versions} if versions else {}
    found = unverified(platform("cuda", **image), load_catalogue())
    assert len(found) == len(notes)
    for note, part in zip(found, notes, strict=True):
        assert part in note


def test_the_page_has_the_channels():
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "`python -m docs.generators versions` writes it"
    assert written(page.replace("1.49.0 |", "1.48.0 |")) == page


@pytest.mark.parametrize("variant", get_args(ImageVariant))
def test_the_dockerfile_asks_for_exactly_what_the_deploy_chooses(variant: str):
    asked = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE)) - OF_THE_STAGE
    assert asked == set(arguments(variant, base=PINNED)) - OF_THE_SCRIPT


def test_no_version_has_a_default_in_the_dockerfile():
    assert re.findall(r"^ARG \w+=.*", DOCKERFILE, re.MULTILINE) == []


def test_the_default_is_the_pytorch_that_a_laptop_runs():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert arguments("cuda")["PYTORCH_VERSION"] == pins["torch"]


def test_a_platform_is_built_from_the_combination_that_it_names():
    assert arguments("cuda", versions="pytorch-2.11") | {"MATRIX_NAME": "pytorch-2.13"} != arguments("cuda")
    assert arguments("cuda", versions="pytorch-2.11")["NCCL_VERSION"] == "2.28.9"


@pytest.mark.parametrize(
    ("groups", "variant"),
    [
        (["cuda"], "cuda"),
        (["neuron"], "neuron"),
        (["cpu"], "cpu"),
        (["cpu", "neuron"], "neuron"),
        (["neuron", "cuda"], "cuda"),
    ],
)
def test_the_variant_is_for_what_the_node_groups_have(groups: list[str], variant: str):
    assert variant_of(platform(*groups), load_catalogue()) == variant


def test_transformer_engine_is_in_an_image_that_asks_for_it():
    without, added = arguments("cuda"), arguments("cuda", add=["transformer-engine"])
    assert (without["TRANSFORMER_ENGINE"], without["TRANSFORMER_ENGINE_VERSION"]) == ("without", "")
    assert (added["TRANSFORMER_ENGINE"], added["TRANSFORMER_ENGINE_VERSION"]) == ("with", "2.20.2")
    assert (added["NEMO"], added["NEMO_VERSION"]) == ("without", "")


def test_flash_attention_is_in_an_image_that_asks_for_it():
    added = arguments("cuda", add=["flash-attention"])
    version = VERSIONS["flash_attention"][0]["version"]
    assert added == arguments("cuda") | {"FLASH_ATTENTION": "with", "FLASH_ATTENTION_VERSION": version}


def test_nemo_is_in_an_image_that_asks_for_it():
    added = arguments("cuda", add=["nemo"])
    assert (added["NEMO"], added["NEMO_VERSION"]) == ("with", "0.7.0")
    assert (added["TRANSFORMER_ENGINE"], added["TRANSFORMER_ENGINE_VERSION"]) == ("without", "")


def test_both_add_ons_are_the_same_image_in_either_order():
    both = arguments("cuda", add=["nemo", "transformer-engine"])
    assert both == arguments("cuda", add=["transformer-engine", "nemo"])
    assert (both["TRANSFORMER_ENGINE"], both["NEMO"]) == ("with", "with")


def with_operator(group: str = "cuda", **image: Any) -> Platform:
    """A platform on HyperPod whose training operator is on."""
    sections = {"orchestrator": "hyperpod-eks", "hyperpod": {"training_operator": True}}
    return Platform.model_validate(platform(group, **image).model_dump(exclude_unset=True) | sections)


def test_the_training_operators_agent_is_in_the_image_by_itself():
    built = build_arguments(with_operator(), load_catalogue(), load_versions())
    assert built.items() >= {"HYPERPOD_ELASTIC_AGENT": "with", "HYPERPOD_ELASTIC_AGENT_VERSION": "1.1.3"}.items()
    without = arguments("cuda")
    assert without.items() >= {"HYPERPOD_ELASTIC_AGENT": "without", "HYPERPOD_ELASTIC_AGENT_VERSION": ""}.items()


def test_an_image_with_the_agent_has_a_pytorch_that_the_agent_supports():
    built = build_arguments(with_operator(), load_catalogue(), load_versions())
    assert (built["MATRIX_NAME"], built["PYTORCH_VERSION"]) == ("pytorch-2.11", "2.11.0")
    named = build_arguments(with_operator(versions="pytorch-2.11"), load_catalogue(), load_versions())
    assert named == built


@pytest.mark.parametrize("versions", ["pytorch-2.12", "pytorch-2.13"])
def test_a_pytorch_that_the_agent_does_not_support_is_refused(versions: str):
    [(key, reason, remedy)] = an_image_can_have_the_agent(with_operator(versions=versions), load_catalogue())
    assert key == ("image", "versions")
    assert "HyperPod's elastic agent" in reason
    assert remedy == "add `images: {operator: {versions: pytorch-2.11}}` for the operator's jobs, or remove the key"
    assert list(an_image_can_have_the_agent(platform("cuda", versions=versions), load_catalogue())) == []


def test_another_image_with_the_agent_lets_the_first_one_have_a_newer_pytorch():
    with_another = with_operator(versions="pytorch-2.13").model_dump(exclude_unset=True)
    with_another["images"] = {"operator": {"versions": "pytorch-2.11"}}
    both = Platform.model_validate(with_another)
    assert list(an_image_can_have_the_agent(both, load_catalogue())) == []
    built = {name: build_arguments(both.of_image(name), load_catalogue(), load_versions()) for name in both.image_names}
    found = {name: (each["PYTORCH_VERSION"], each["HYPERPOD_ELASTIC_AGENT"]) for name, each in built.items()}
    assert found == {"image": ("2.13.0", "without"), "operator": ("2.11.0", "with")}


def test_check_says_why_the_operator_has_an_older_pytorch_and_how_to_have_a_newer_one():
    [note] = [each for each in unverified(with_operator(), load_catalogue()) if "elastic agent" in each]
    assert "supports no newer PyTorch" in note and "images: {operator: {versions: pytorch-2.11}}" in note
    newer = with_operator(versions="pytorch-2.15")
    assert "does not support PyTorch 2.15.0" in " ".join(unverified(newer, load_catalogue()))
    assert not [each for each in unverified(platform("cuda"), load_catalogue()) if "elastic agent" in each]


def test_layers_are_compressed_so_that_everybody_who_fetches_them_can_read_them():
    assert arguments("cuda")["LAYER_COMPRESSION"] == "zstd"
    jobs = platform("cuda").model_dump(exclude_unset=True) | {"iam": {"training_jobs": True}}
    of_sagemaker = build_arguments(Platform.model_validate(jobs), load_catalogue(), load_versions())
    assert of_sagemaker["LAYER_COMPRESSION"] == "gzip"


def test_each_variant_begins_with_its_base():
    [images] = VERSIONS["images"]
    bases = {variant: arguments(variant)["BASE_IMAGE"] for variant in ("cuda", "cpu")}
    assert bases == dict.fromkeys(("cuda", "cpu"), images["base"])
    assert arguments("neuron", base=PINNED)["BASE_IMAGE"] == PINNED


def test_an_image_that_keeps_the_packages_of_its_base_has_efa_of_the_combination_and_nothing_else():
    kept = arguments("cuda", base=PINNED, base_packages="kept")
    assert (kept["VARIANT"], kept["LAYOUT"]) == ("cuda", "kept")
    assert {kept[f"{each}_VERSION"] for each in ("PYTORCH", "CUDA", "NCCL", "GDRCOPY")} == {""}
    assert kept["EFA_INSTALLER_VERSION"] == arguments("cuda")["EFA_INSTALLER_VERSION"] != ""
    made_of = made(DOCKERFILE, "libraries", kept)
    assert "container/beside_base.sh" in made_of.files
    assert [each for each in made_of.instructions if "efa_installer" in each]
    assert not [each for each in made_of.instructions if "install_part" in each]
    # Without the key, such a base gets the combination's own.
    assert arguments("cuda", base=PINNED)["LAYOUT"] == "cuda"


def test_everything_the_dockerfile_copies_is_in_the_build_context():
    ignore = (ROOT / "container/Dockerfile.dockerignore").read_text().splitlines()
    allowed = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    copied = {
        source.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(?:--link )?(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    copied |= set(re.findall(r"--mount=type=bind,source=([^,]+)", DOCKERFILE))
    covered = {source: [each for each in allowed if Path(source).is_relative_to(each)] for source in copied}
    assert all(covered.values()), covered
    assert {each for entries in covered.values() for each in entries} == set(allowed), "what is not copied"


@pytest.mark.parametrize(
    ("replace", "by", "says"),
    [
        (
            "tested_with_nccl: [2.28.9, 2.29.7, 2.30.4]",
            "tested_with_nccl: [2.31.2]",
            [
                "combinations[0].efa_installer",
                "aws-ofi-nccl 1.20.0 was not tested with NCCL 2.29.7",
                "only calls it compatible with 2.17.1 and newer",
                "write as `evidence` who runs the pair",
            ],
        ),
        (
            "libfabric: 2.4.0amzn5.0",
            "libfabric: 1.21.0amzn1.0",
            [
                "efa_installers[0].libfabric",
                "aws-ofi-nccl 1.20.0 was tested with 2.4.0amzn5.0, and is called compatible with 1.22.0 and newer",
            ],
        ),
        (
            "nccl: 2.29.7",
            "nccl: 2.17.0",
            [
                "combinations[0].efa_installer",
                "PyTorch 2.13.0 requires NCCL 2.17.0",
                "was tested with 2.28.9 or 2.29.7 or 2.30.4, and is called compatible with 2.17.1 and newer",
            ],
        ),
        (
            "tested_with_nccl: [2.28.9, 2.29.7, 2.30.4]\n    nccl_from: 2.17.1",
            "tested_with_nccl: []\n    nccl_from: null",
            ["combinations[0].efa_installer", "has no release notes that say what it was tested with"],
        ),
        (
            "sha256: cf2e9281a2328a243c76f911a490faed43ca0fecfe4733c25e34b2e92a32c309",
            "sha256: null",
            ["combinations[0].efa_installer", "the checksum of EFA installer 1.49.0 is not known"],
        ),
        (
            "    made: 2026-11-21\n",
            "    made: 2026-11-21\n    nccl: 2.31.9\n",
            ["combinations[0].nccl", "nothing is known of it"],
        ),
        (
            'python: "3.12"\n    source: https://gallery',
            'python: "3.13"\n    source: https://gallery',
            ["combinations[0].images", "was built for Python 3.12, and the base has 3.13"],
        ),
        (
            "cuda_toolkit: 13.0.3",
            "cuda_toolkit: 13.0.4",
            ["pytorch[0].cuda_toolkit", "container/requirements has no list for it"],
        ),
        (
            "pytorch: 2.13.0\n    efa_installer: 1.49.0",
            "pytorch: 2.13.0\n    efa_installer: 1.48.0",
            ["combinations[0].efa_installer", "nothing is known of it", "name 1.49.0 or 1.50.0 or 1.51.0"],
        ),
        (
            "ubuntu:24.04@sha256:008173c23f95b170204355c12626cb5a965d779a7e1283b09e9cffbb1bf33ca3",
            "ubuntu:24.04",
            ["images[0].base", "not pinned: a tag alone can mean another image tomorrow"],
        ),
        (
            "    sha256: 38974e70342150ede0e3fb8fd24bfe60ccbde90fa20241716ba8bb338e6b61a0\n",
            "",
            ["nccl_tests[0].sha256", "the key is required"],
        ),
        (
            "sha256: 796633c4cdf0fe2cdced72d8f88f22e73dbcfce83132763162f6d4bff13b820b",
            "sha256: 796633c4",
            ["pytorch[0].sha256", "it is not a SHA-256 checksum"],
        ),
        (
            'cuda: "13"',
            'cuda: "12"',
            ["combinations[0].transformer_engine", "built for CUDA 12, and PyTorch 2.13.0 for CUDA 13.0"],
        ),
        (
            'pytorch_from: "2.1"',
            "pytorch_from: 2.14.0",
            ["combinations[0].transformer_engine", "Transformer Engine 2.20.2 requires PyTorch 2.14.0 or newer"],
        ),
        (
            "pytorch_from: 2.8.0",
            "pytorch_from: 2.12.0",
            ["combinations[2].nemo", "NeMo 0.7.0 requires PyTorch 2.12.0 or newer", "or a newer PyTorch"],
        ),
        (
            "transformer_engine_from: 2.19.0",
            "transformer_engine_from: 2.21.0",
            ["combinations[0].nemo", "NeMo 0.7.0 requires Transformer Engine 2.21.0 or newer"],
        ),
        (
            "    nemo: 0.7.0\n",
            "    nemo: 0.7.0\n    hyperpod_elastic_agent: 1.1.3\n",
            ["combinations[0].hyperpod_elastic_agent", "requires PyTorch 2.4.0 or newer, and older than 2.12.0"],
        ),
        (
            "hyperpod_elastic_agent: 1.1.3",
            "hyperpod_elastic_agent: 1.1.4",
            ["combinations[2].hyperpod_elastic_agent", "nothing is known of it", "name 1.1.3"],
        ),
        ('pytorch_from: "2.1"', "pytorch_from: newest", ["pytorch_from", "it is not the version of a release"]),
        ("nemo: 0.7.0", "nemo: 0.8.0", ["combinations[0].nemo", "nothing is known of it", "name 0.7.0"]),
        (
            "  - version: 0.7.0",
            "  - version: 0.8.0",
            ["nemo[0].version", "container/requirements has no list for it", "`make lock` writes it"],
        ),
        (
            "  - version: 2.12.1",
            "  - version: 2.12.2",
            ["pytorch[1].version", "container/requirements has no list for it"],
        ),
        (
            "  - version: 2.20.2",
            "  - version: 2.20.3",
            ["transformer_engine[0].version", "container/requirements has no list for it"],
        ),
        (
            "  - version: 1.1.3",
            "  - version: 1.1.4",
            ["hyperpod_elastic_agent[0].version", "container/requirements has no list for it"],
        ),
        ('python: "3.12"', "python: 3.12", ["images[0].python", "version of its Python, in quotes"]),
        ("default: stable", "default: pytorch-2.14", ["default", "there is no such combination"]),
        ("\n  current: ", "\n  current: no-", ["channels.current", "there is no such combination"]),
        ("name: pytorch-2.12", "name: edge", ["combinations[1].name", "the name stands twice"]),
        ("nccl: 2.31.2\n", "nccl: 2.30.7\n", ["combinations[4].nccl", "nothing is known of it", "name 2.31.2"]),
        ("efa_installer: 1.50.0", "efa_installer: 1.51.0", ["combinations[3].efa_installer", "1.51.0 is not known"]),
        ("name: pytorch-2.12", "name: pytorch-2.13", ["combinations[1].name", "the name stands twice"]),
        ("aws_ofi_nccl: 1.20.0", "aws_ofi_nccl: 1.21.2", ["efa_installers[0].aws_ofi_nccl", "nothing is known"]),
    ],
)  # fmt: skip
def test_versions_that_cannot_be_built_are_refused(tmp_path: Path, replace: str, by: str, says: list[str]):
    assert replace in MATRIX
    file = tmp_path / "versions.yaml"
    file.write_text(MATRIX.replace(replace, by, 1))
    with pytest.raises(SpecError) as caught:
        load_versions(file, lists=LISTS)
    for part in (str(file), *says):
        assert part in str(caught.value)


def test_the_page_shows_what_a_wrong_pair_is_told(tmp_path: Path):
    file = tmp_path / VERSIONS_FILE.relative_to(ROOT)
    file.parent.mkdir(parents=True)
    file.write_text(MATRIX.replace("nccl: 2.29.7", "nccl: 2.17.0", 1))
    with pytest.raises(SpecError) as caught:
        load_versions(file)
    first = str(caught.value.problems[0]).replace(f"{tmp_path}/", "")
    assert first in (ROOT / "docs/image.md").read_text(encoding="utf-8")
