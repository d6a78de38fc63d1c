"""The real Dockerfile, built by the delivery's own scripts from stand-ins: a Debian base and what loopback serves."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.container import stand_ins
from tests.container.builder import IMAGES, ISOLATION, REGISTRY, ROOT, Builder, prepare, store_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.versions import VERSIONS_FILE, PyTorch, release, requirements_of
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

PARTS = ("container", "delivery", "training", "pyproject.toml")
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
# `training.config` is imported while the image is built.
IMPORTED = ("annotated-types", "pydantic", "pydantic_core", "PyYAML", "typing-inspection", "typing_extensions")
# What a package of sources is built with: PyTorch brings the first.
BUILDERS = ("setuptools", f"packaging=={PINS['packaging']}", "wheel")
NAMES = ("boto3", "numpy", "safetensors", "tensorboard", "tokenizers")
# A package that the base image has, older than the archive's.
OF_THE_BASE = "trainway-stand-in"
# Of another CUDA than PyTorch's.
OLD_RUNTIME = "nvidia-cuda-runtime-cu12==12.9.79"
BASE = "localhost/base:1"
GROUPS = {"cuda": "p5.48xlarge", "cpu": "m7i.8xlarge", "neuron": "trn1.32xlarge"}


@dataclass(frozen=True)
class Yard(Builder):
    """A builder, and the arguments of images whose packages loopback serves."""

    url: str
    archive_key: bytes
    arguments: dict[str, dict[str, str]]
    # What differs where the platform asks for an add-on.
    transformer_engine: dict[str, str]
    nemo: dict[str, str]
    flash_attention: dict[str, str]
    agent: dict[str, str]

    @property
    def torch(self) -> str:
        """Where the wheel of PyTorch is served."""
        version = self.arguments["cuda"]["PYTORCH_VERSION"]
        return f"{self.url}/simple/torch/torch-{version}-py3-none-any.whl"

    def stage(self, script: str, arguments: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run delivery/`script`, which builds with the arguments."""
        self.write_arguments(arguments)
        return self.run("bash", f"delivery/{script}", **variables)

    def image(self, tag: str, arguments: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the base stage, and the image stage if that ends well; both give what they build the tag."""
        base = self.stage("base.sh", arguments, BASE_TAG=tag, **variables)
        if base.returncode:
            return base
        return self.stage("image.sh", arguments, IMAGE_TAG=tag, BASE_TAG=tag, **variables)

    def through(self, stage: str, tag: str, arguments: dict[str, str]) -> None:
        """Build the stages up to `stage`, without the delivery's scripts, and give what they build the tag."""
        words = [word for item in arguments.items() for word in ("--build-arg", "=".join(item))]
        build = ["buildah", "build", *ISOLATION, "--layers", "--format", "docker", "--target", stage]
        self.must(*build, "--file", "container/Dockerfile", "--tag", _name(tag), *words, ".")

    def derive(self, image: str, name: str, command: str) -> None:
        """Make an image from another one by a shell command as root."""
        container = self.must("buildah", "from", "--pull-never", image).strip()
        self.shell(container, command)
        self.commit(container, name)

    def inside(self, tag: str, *words: str) -> str:
        """Return what a command in the image prints, as the user and in the environment that the image has."""
        done = self.run_in(_name(tag), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def versions_of_packages(self, tag: str) -> set[str]:
        """Return the versions of the packages that the stand-in archives have, as NAME=VERSION."""
        query = ["dpkg-query", "--show", "--showformat=${Package}=${Version}\\n", OF_THE_BASE, *stand_ins.INSTALLED]
        return set(self.inside(tag, *query).split())

    def layers(self, tag: str) -> list[str]:
        """Return the digests of the image's layers, the lowest first."""
        return self.layers_of(_name(tag))

    def configuration(self, tag: str) -> dict[str, Any]:
        """Return the image's configuration in the format of OCI."""
        return self.configuration_of(_name(tag))


def _name(tag: str) -> str:
    return f"{REGISTRY}/{IMAGES}:{tag}"


@contextmanager
def set_up(root: Path, site: Path) -> Iterator[Yard]:
    """Yield a yard in the empty directory `root`; what is served is in the empty directory `site`."""
    prepare(root, PARTS)
    pinned = _published(site, root / "container/requirements")
    old, live = dict.fromkeys(stand_ins.INSTALLED, "1:99"), dict.fromkeys(stand_ins.INSTALLED, "1:100")
    archive_key = stand_ins.ubuntu_archive(site / "ubuntu", old | {OF_THE_BASE: "1.1"})
    stand_ins.apt_repository(site / "apt", live | {OF_THE_BASE: "1.2"})
    with stand_ins.served(site) as url:
        arguments = {variant: _arguments(variant, url, pinned, root) for variant in GROUPS}
        engine, nemo, attention = (
            dict(_arguments("cuda", url, pinned, root, add=[each]).items() - arguments["cuda"].items())
            for each in ("transformer-engine", "nemo", "flash-attention")
        )
        operator: dict[str, Any] = {"orchestrator": "hyperpod-eks", "hyperpod": {"training_operator": True}}
        agent = _arguments("cuda", url, pinned, root, **operator)
        yard = Yard(root, {}, url, archive_key, arguments, engine, nemo, attention, agent)
        with store_of(yard):
            _bases(yard)
            yield yard


def _published(site: Path, requirements: Path) -> dict[str, dict[str, str]]:
    """Makes what is served, at the versions of the matrix, and the lists of it.

    Returns the checksums by what the matrix calls them.
    """
    versions = load_versions()
    engine, nemo = versions.transformer_engine[0].version, versions.nemo[0].version
    attention = versions.flash_attention[0].version
    [plugin, wheel] = versions.aws_ofi_nccl[0], versions.pytorch[0]
    installer, tests = site / "efa.tar.gz", site / "nccl-tests.tar.gz"
    (site / "work").mkdir()
    stand_ins.efa_installer(
        installer, site / "work", libfabric=plugin.tested_with_libfabric[0], aws_ofi_nccl=plugin.version
    )
    stand_ins.nccl_tests(tests, site / "work")
    stand_ins.gdrcopy(site / "gdrcopy.tar.gz", site / "work")
    index = site / "simple"
    torch, brought = _pytorch(index, wheel)
    of_the_agent = next(each for each in versions.combinations if each.hyperpod_elastic_agent)
    older = release(versions.pytorch, of_the_agent.pytorch)
    assert older and of_the_agent.hyperpod_elastic_agent, "VERSION_RULES let nothing else pass"
    older_torch, older_brought = _pytorch(index, older)
    setuptools = stand_ins.real_wheels(index, BUILDERS[:1])
    job = [stand_ins.wheel(index, name, PINS[name], {f"{name}.py": ""}) for name in NAMES]
    job += stand_ins.real_wheels(index, [f"{name}=={PINS[name]}" for name in IMPORTED])
    tools = [stand_ins.wheel(index, name, "1", {}) for name in ("build", "ninja")]
    lists = {
        **{requirements_of("cuda-toolkit", each.cuda_toolkit): _toolkit(index, each) for each in (older, wheel)},
        requirements_of("pytorch", wheel.version): [*brought, *setuptools],
        requirements_of("pytorch", older.version): [*older_brought, *setuptools],
        "build-tools.txt": [*tools, *stand_ins.real_wheels(index, BUILDERS[1:])],
        "training.txt": [*job, stand_ins.s3_connector(index, PINS["s3torchconnector"])],
        requirements_of("transformer-engine", engine): [stand_ins.wheel(index, "einops", "0.8.2", {})],
        requirements_of("nemo", nemo): stand_ins.nemo(index, nemo),
        requirements_of("flash-attention", attention): [stand_ins.wheel(index, "flash-attn-4", attention, {})],
        requirements_of("hyperpod-elastic-agent", of_the_agent.hyperpod_elastic_agent): [
            stand_ins.agent(index, of_the_agent.hyperpod_elastic_agent)
        ],
    }
    stand_ins.real_wheels(index, [OLD_RUNTIME])
    for name, archives in lists.items():
        stand_ins.requirements(requirements / name, archives)
    return {
        "efa_installers": {"sha256": stand_ins.sha256(installer)},
        "nccl_tests": {"sha256": stand_ins.sha256(tests)},
        "gdrcopy": {"sha256": stand_ins.sha256(site / "gdrcopy.tar.gz")},
        f"pytorch=={wheel.version}": {"sha256": stand_ins.sha256(torch)},
        f"pytorch=={older.version}": {"sha256": stand_ins.sha256(older_torch)},
        "transformer_engine": stand_ins.transformer_engine(index, engine),
    }


def _pytorch(index: Path, wheel: PyTorch) -> tuple[Path, list[Path]]:
    """A wheel of PyTorch of that version, and what it brings."""
    return stand_ins.torch_wheel(index, wheel.version, cuda=wheel.cuda, cudart=_cudart(wheel), nccl=wheel.nccl)


def _toolkit(index: Path, wheel: PyTorch) -> list[Path]:
    """The CUDA toolkit of that PyTorch."""
    return stand_ins.cuda_toolkit(index, wheel.cuda_toolkit, _cudart(wheel))


def _cudart(wheel: PyTorch) -> str:
    """The version of the CUDA runtime that a PyTorch brings."""
    listed = ROOT / "container/requirements" / requirements_of("pytorch", wheel.version)
    cudart = re.search(r"^nvidia-cuda-runtime==(\S+)", listed.read_text(), re.MULTILINE)
    assert cudart, "PyTorch brings the CUDA runtime"
    return cudart[1]


def _arguments(
    variant: str, url: str, pinned: dict[str, dict[str, str]], root: Path, add: Sequence[str] = (), **sections: Any
) -> dict[str, str]:
    """The arguments that the deploy would write for a matrix of the same versions whose files are the stand-ins."""
    matrix = yaml.safe_load(VERSIONS_FILE.read_text(encoding="utf-8"))
    for component, checksums in pinned.items():
        name, _, version = component.partition("==")
        entries = [each for each in matrix[name] if version in ("", each["version"])]
        entries[0] |= checksums
    matrix["efa_installers"][0]["url"] = f"{url}/efa.tar.gz"
    matrix["nccl_tests"][0]["url"] = f"{url}/nccl-tests.tar.gz"
    matrix["gdrcopy"][0]["url"] = f"{url}/gdrcopy.tar.gz"
    file = root / f"versions-{variant}.yaml"
    file.write_text(yaml.safe_dump(matrix))
    platform = Platform.model_validate(
        {
            "region": "us-west-2",
            "zones": ["usw2-az1"],
            "node_groups": [{"name": "train", "instance_type": GROUPS[variant], "count": 1}],
            "image": {"add": add},
            **sections,
        }
    )
    arguments = build_arguments(platform, load_catalogue(), load_versions(file))
    stand_in = {"UBUNTU_SNAPSHOT": f"{url}/ubuntu" if arguments["UBUNTU_SNAPSHOT"] else ""}
    return arguments | {"BASE_IMAGE": BASE} | stand_in


def _bases(yard: Yard) -> None:
    """The base, whose apt and pip ask loopback.

    It says that it is Ubuntu, trusts the key of the snapshot, and has a package that the snapshot has newer.
    """

    def system(directory: Path) -> None:
        stand_ins.base_system(directory)
        keyring = directory / "usr/share/keyrings/ubuntu-archive-keyring.gpg"
        keyring.parent.mkdir(exist_ok=True)
        keyring.write_bytes(yard.archive_key)
        release = directory / "etc/os-release"
        release.unlink()
        release.write_text(f'NAME="Ubuntu"\nID=ubuntu\nVERSION_CODENAME={stand_ins.RELEASE}\n')
        stand_ins.package(directory / "tmp", OF_THE_BASE, "1.0", yard.root / OF_THE_BASE)
        command = ["dpkg", "--root", str(directory), "--install", str(directory / f"tmp/{OF_THE_BASE}.deb")]
        subprocess.run(command, check=True, capture_output=True)

    container = yard.container(system)
    sources = f"rm -rf /etc/apt/sources.list*; echo 'deb [trusted=yes] {yard.url}/apt ./' >/etc/apt/sources.list"
    yard.shell(container, sources)
    yard.configure(container, {"PIP_INDEX_URL": f"{yard.url}/simple"})
    yard.commit(container, BASE)
