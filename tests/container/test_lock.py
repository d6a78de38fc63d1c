"""The lists of the image's packages: made from what uv finds, whole, and in the versions that the job is pinned to."""

import hashlib
import importlib.metadata
import importlib.util
import io
import re
import sys
import tarfile
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trainway.delivery.resolution import parsed
from trainway.spec.facts.versions import VERSIONS_FILE, PyTorch, requirements_of
from trainway.spec.loader import load_versions

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "container/requirements"
spec = importlib.util.spec_from_file_location("lock", ROOT / "container/lock.py")
assert spec is not None and spec.loader is not None
lock = importlib.util.module_from_spec(spec)
sys.modules["lock"] = lock
spec.loader.exec_module(lock)

VERSIONS = load_versions()
REQUIRED, CONSTRAINTS = lock.job()
PINS: dict[str, str] = {str(canonicalize_name(name)): version for name, version in CONSTRAINTS.items()}
LISTS = sorted(REQUIREMENTS.iterdir())
TRAINING, BUILD_TOOLS = REQUIREMENTS / "training.txt", REQUIREMENTS / "build-tools.txt"
PYTORCH = {release.version: REQUIREMENTS / requirements_of("pytorch", release.version) for release in VERSIONS.pytorch}
TOOLKITS = {REQUIREMENTS / requirements_of("cuda-toolkit", release.cuda_toolkit) for release in VERSIONS.pytorch}
ADD_ONS = [
    *(REQUIREMENTS / requirements_of("transformer-engine", engine.version) for engine in VERSIONS.transformer_engine),
    *(REQUIREMENTS / requirements_of("nemo", nemo.version) for nemo in VERSIONS.nemo),
    *(REQUIREMENTS / requirements_of("flash-attention", each.version) for each in VERSIONS.flash_attention),
    *(
        REQUIREMENTS / requirements_of("hyperpod-elastic-agent", agent.version)
        for agent in VERSIONS.hyperpod_elastic_agent
    ),
]
# The add-ons with a package that needs an older protobuf than a laptop's.
OLDER = {file for file in ADD_ONS if not file.name.startswith("hyperpod-elastic-agent")}
# What a marker is evaluated for: the image, which this machine need not be like.
IMAGE = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": f"{VERSIONS.images[0].python}.0",
    "python_version": VERSIONS.images[0].python,
    "sys_platform": "linux",
}


def package(version: str, *checksums: str, sources: str = ""):
    return lock.Package(version, checksums, sources)


def pins(file: Path) -> dict[str, str]:
    """The versions of a list by name."""
    return dict(re.findall(r"^(\S+)==(\S+) \\$", file.read_text(), re.MULTILINE))


def closure(requirements: list[str]) -> set[str]:
    """The names of what the requirements bring, as the packages installed here say, but for what PyTorch does."""
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        requirement = waiting.pop()
        this = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if this[0] == "torch" or this in done:
            continue
        done.add(this)
        for line in importlib.metadata.requires(this[0]) or ():
            needed = Requirement(line)
            if needed.marker is None or any(
                needed.marker.evaluate(IMAGE | {"extra": extra}) for extra in this[1] or {""}
            ):
                waiting.append(needed)
    return {name for name, _ in done}


def sources(files: dict[str, str]) -> bytes:
    """An archive of sources as indexes have it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"x-1/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def test_there_is_a_list_for_every_release_and_for_the_job_and_no_other():
    assert set(LISTS) == {TRAINING, BUILD_TOOLS, *PYTORCH.values(), *TOOLKITS, *ADD_ONS}


@pytest.mark.parametrize("file", LISTS, ids=lambda file: file.name)
def test_every_package_of_a_list_has_a_version_and_a_checksum(file: Path):
    entries = file.read_text().replace("\\\n", " ").splitlines()[1:]
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", entry), entry


@pytest.mark.parametrize("pytorch", PYTORCH)
def test_what_the_job_requires_is_listed_and_nothing_else(pytorch: str):
    before = pins(PYTORCH[pytorch]).keys() | pins(BUILD_TOOLS).keys()
    assert {"boto3", "safetensors", "tenacity"} <= pins(TRAINING).keys()
    assert pins(TRAINING).keys() == closure(REQUIRED) - before, "list them again with `make lock`"


def test_an_image_has_the_jobs_packages_in_the_versions_of_a_laptop():
    assert {name: PINS[name] for name in pins(TRAINING)} == pins(TRAINING), "list them again with `make lock`"


@pytest.mark.parametrize("file", [BUILD_TOOLS, *PYTORCH.values(), *ADD_ONS], ids=lambda file: file.name)
def test_what_a_laptop_has_as_well_has_its_version(file: Path):
    locked = pins(file)
    both = locked.keys() & PINS.keys()
    assert both
    assert {name for name in both if locked[name] != PINS[name]} == (lock.RELEASED if file in OLDER else set())


@pytest.mark.parametrize("pytorch", PYTORCH)
def test_a_package_stands_once_but_for_what_an_add_on_replaces(pytorch: str):
    """Three lists make an image, and each add-on one more."""
    job = [pins(file).keys() for file in (PYTORCH[pytorch], BUILD_TOOLS, TRAINING)]
    assert sum(map(len, job)) == len(set().union(*job))
    for add_on in ADD_ONS:
        assert pins(add_on).keys() & set().union(*job) == (lock.RELEASED if add_on in OLDER else set())


@pytest.mark.parametrize("pytorch", VERSIONS.pytorch, ids=lambda pytorch: pytorch.version)
def test_the_matrix_has_the_nccl_that_pytorch_brings(pytorch: PyTorch):
    assert pins(PYTORCH[pytorch.version])["nvidia-nccl-cu13"] == pytorch.nccl


@pytest.mark.parametrize("pytorch", VERSIONS.pytorch, ids=lambda pytorch: pytorch.version)
def test_a_toolkit_is_that_of_pytorch_and_has_the_compiler(pytorch: PyTorch):
    """An image to develop in has both lists."""
    toolkit = pins(REQUIREMENTS / requirements_of("cuda-toolkit", pytorch.cuda_toolkit))
    brought = pins(PYTORCH[pytorch.version])
    assert toolkit.keys() > {"nvidia-cuda-nvcc", "nvidia-cuda-cccl", "nvidia-cuda-runtime"}
    assert {name: brought[name] for name in toolkit.keys() & brought.keys()}.items() <= toolkit.items()
    assert toolkit["cuda-toolkit"].startswith(pytorch.cuda_toolkit)
    # A part of another release cannot read what nvcc writes.
    assert {toolkit[name] for name in ("nvidia-cuda-crt", "nvidia-nvvm")} == {toolkit["nvidia-cuda-nvcc"]}


def test_what_builds_sources_is_there_before_them():
    assert "setuptools" in set.intersection(*(set(pins(file)) for file in PYTORCH.values()))
    assert {"ninja", "packaging", "wheel"} <= pins(BUILD_TOOLS).keys()


def test_add_ons_have_what_they_share_in_one_version():
    lists = [pins(file) for file in ADD_ONS]
    shared = {name for one, other in combinations(lists, 2) for name in one.keys() & other.keys()}
    assert {"annotated-doc", "einops"} <= shared
    assert {name for name in shared if len({each[name] for each in lists if name in each}) > 1} == set()


def test_neither_pytorch_nor_what_the_matrix_has_a_checksum_of_is_in_a_list():
    named = {name for file in LISTS for name in pins(file)}
    assert not named & {"pip", "torch", "transformer-engine", "transformer-engine-cu13", "transformer-engine-torch"}


def test_a_lock_file_is_read_by_names_versions_and_wheels():
    wheels = [{"hashes": {"sha256": "b"}}, {"hashes": {"sha256": "a"}}]
    sdist = {"url": "https://example.org/x.tar.gz", "hashes": {"sha256": "c"}}
    read = parsed({"packages": [{"name": "x", "version": "1", "wheels": wheels, "sdist": sdist}]})
    assert read == {"x": package("1", "a", "b")}


def test_a_package_without_a_wheel_is_read_by_its_sources():
    sdist = {"url": "https://example.org/y.tar.gz", "hashes": {"sha256": "c"}}
    read = parsed({"packages": [{"name": "y", "version": "2", "sdist": sdist}]})
    assert read == {"y": package("2", "c", sources="https://example.org/y.tar.gz")}


def test_what_an_image_has_already_is_left_out_and_another_version_of_it_is_not():
    there = {"x": package("1", "a"), "y": package("1", "b")}
    resolution = {"x": package("1", "a"), "y": package("2", "c"), "z": package("1", "d")}
    assert lock.besides(resolution, there, {"z": package("1", "d")}) == {"y": package("2", "c")}


def test_a_list_of_several_combinations_has_what_is_in_any_of_them():
    one, two = {"y": package("1", "a")}, {"x": package("1", "b"), "y": package("1", "a")}
    assert list(lock.common([one, two]).items()) == [("x", package("1", "b")), ("y", package("1", "a"))]


def test_a_package_must_be_the_same_for_every_combination():
    with pytest.raises(ValueError, match="differs between combinations: x"):
        lock.common([{"x": package("1", "a")}, {"x": package("2", "b")}])


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"pyproject.toml": '[build-system]\nrequires = ["build", "setuptools"]\n'}, ["build", "setuptools"]),
        ({"pyproject.toml": "[project]\n"}, ["setuptools"]),
        ({"setup.py": "", "vendored/pyproject.toml": '[build-system]\nrequires = ["flit"]\n'}, ["setuptools"]),
    ],
)
def test_sources_say_what_they_are_built_with(files: dict[str, str], found: list[str]):
    assert lock.declared(sources(files)) == found


def test_what_sources_are_built_with_is_read_from_the_archive_of_the_checksum(tmp_path: Path):
    archive = tmp_path / "x-1.tar.gz"
    archive.write_bytes(sources({"pyproject.toml": '[build-system]\nrequires = ["build"]\n'}))
    right = package("1", hashlib.sha256(archive.read_bytes()).hexdigest(), sources=archive.as_uri())
    assert lock.tools({"x": right, "y": package("1", "a")}) == ["build"]
    assert lock.tools({"transformer-engine-torch": right}) == ["build", "ninja", "wheel"]
    with pytest.raises(ValueError, match="another checksum"):
        lock.tools({"x": package("1", "0" * 64, sources=archive.as_uri())})


def test_a_list_is_what_pip_takes():
    assert lock.text({"x": package("1", "a", "b")}).splitlines()[1:] == [
        "x==1 \\",
        "    --hash=sha256:a \\",
        "    --hash=sha256:b",
    ]


def test_the_job_is_resolved_in_the_versions_that_it_is_pinned_to():
    assert "tensorboard" in REQUIRED
    assert CONSTRAINTS.keys() >= {"numpy", *lock.RELEASED}
    assert "torch" not in CONSTRAINTS


def test_lists_that_are_there_stay_with_missing_and_are_asked_for_nothing():
    matrix = yaml.safe_load(VERSIONS_FILE.read_text(encoding="utf-8"))
    found = lock.lists(Path("no-such-uv"), matrix, keep=True, only_missing=True)
    assert found == {file.name: file.read_text(encoding="utf-8") for file in LISTS}


def test_a_combination_keeps_the_versions_of_its_lists():
    [stable] = [each for each in VERSIONS.combinations if each.name == VERSIONS.channels["stable"]]
    kept = lock.listed(stable.model_dump(), "13.0.3")
    assert kept.items() >= (pins(PYTORCH[stable.pytorch]) | pins(TRAINING)).items()
    assert lock.files_of(stable.model_dump(), "13.0.3")[0] == BUILD_TOOLS
