"""The real Dockerfile, built by the delivery's own scripts from stand-ins: a Debian base and what loopback serves.

buildah takes the place of BuildKit, and a directory that of ECR. Each case of a build that must fail begins with the
stages that were built before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.container import stand_ins
from tests.representatives import with_representatives
from trainway.spec.derived.image_build import build_arguments
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.versions import VERSIONS_FILE, PyTorch, release, requirements_of
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
PARTS = ("container", "delivery", "training", "pyproject.toml")
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
# `training.config` is imported while the image is built.
IMPORTED = ("annotated-types", "pydantic", "pydantic_core", "PyYAML", "typing-inspection", "typing_extensions")
# What a package of sources is built with: PyTorch brings the first.
BUILDERS = ("setuptools", f"packaging=={PINS['packaging']}", "wheel")
NAMES = ("boto3", "numpy", "safetensors", "tensorboard", "tokenizers")
BASE, DEVEL = "localhost/base:1", "localhost/devel:1"
GROUPS = {"cuda": "p5.48xlarge", "cpu": "m7i.8xlarge", "neuron": "trn1.32xlarge"}

AWS = """\
case "$1 $2" in
  "ecr describe-images")
    [[ -e "$ECR/$4/${6#imageTag=}" ]] && cat "$ECR/$4/${6#imageTag=}" && exit
    echo "An error occurred (ImageNotFoundException)" >&2 && exit 254 ;;
  "ecr get-login-password") echo token ;;
esac
"""
# Less the words that only buildx knows. An image is found by its tag, because only a registry finds it by its digest;
# what is built is listed by the digest that it has here.
DOCKER = """\
[[ "$1" != login ]] || { cat >/dev/null; exit; }
[[ "$1" != info ]] || exit 0
shift 2
words=()
for word in "$@"; do
  case "$word" in
    --provenance=* | --output | type=image,* | --progress=*) ;;
    *@*) words+=("${word%@*}:$BASE_TAG") ;;
    *) words+=("$word") ;;
  esac
done
[[ -z "${INSTEAD:-}" ]] || words=(--build-context "$INSTEAD" "${words[@]}")
# OCI's own format has no SHELL.
buildah build --isolation chroot --layers --format docker "${words[@]}"
while (($#)); do
  [[ "$1" != --tag ]] || name=$2
  shift
done
listed=$ECR/${name#*/}
mkdir -p "$(dirname "${listed/://}")"
buildah inspect --type image --format '{{.FromImageDigest}}' "$name" >"${listed/://}"
"""


def missing() -> str | None:
    """Why no image can be built here; None if one can."""
    if os.geteuid():
        return "only root may build an image without a daemon"
    absent = [program for program in ("buildah", "dpkg-deb", "gcc", "mmdebstrap") if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}; scripts/install_buildah installs them" if absent else None


pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()) and "CI" not in os.environ, reason=missing() or ""),
]


@dataclass(frozen=True)
class Yard:
    """A copy of what the image stage is given, with stand-ins on PATH and a store of images of its own."""

    root: Path
    url: str
    arguments: dict[str, dict[str, str]]
    # What differs where the platform asks for an add-on.
    transformer_engine: dict[str, str]
    nemo: dict[str, str]
    agent: dict[str, str]

    @property
    def torch(self) -> str:
        """Where the wheel of PyTorch is served."""
        version = self.arguments["cuda"]["PYTORCH_VERSION"]
        return f"{self.url}/simple/torch/torch-{version}-py3-none-any.whl"

    def variables(self, **variables: str) -> dict[str, str]:
        """The environment of a stage."""
        return {
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.root),
            "CONTAINERS_STORAGE_CONF": str(self.root / "storage.conf"),
            # Where the caches of RUN are kept.
            "TMPDIR": str(self.root / "caches"),
            "ECR": str(self.root / "ecr"),
            "REGISTRY": REGISTRY,
            "AWS_REGION": "us-west-2",
            "MIRROR_REGISTRY": REGISTRY,
            "MIRROR_PREFIX": "atlas/mirror",
            "BASE_TAG": "base",
            **variables,
        }

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, and shows what it said where it must not fail and does."""
        done = subprocess.run(words, env=self.variables(), cwd=self.root, capture_output=True, text=True, timeout=500)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def stage(self, script: str, arguments: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs delivery/`script`, which builds with the arguments."""
        (self.root / "image.json").write_text(json.dumps(arguments))
        command = ["bash", str(self.root / "delivery" / script)]
        environment = self.variables(IMAGE_REPOSITORY=f"{REGISTRY}/atlas/training", **variables)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)

    def image(self, tag: str, arguments: dict[str, str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the base stage, and the image stage if that ends well; both give what they build the tag."""
        base = self.stage("base.sh", arguments, BASE_TAG=tag, **variables)
        if base.returncode:
            return base
        return self.stage("image.sh", arguments, IMAGE_TAG=tag, BASE_TAG=tag, **variables)

    def derive(self, image: str, name: str, command: str) -> None:
        """An image from another one by a shell command as root."""
        container = self.command("buildah", "from", "--pull-never", image).stdout.strip()
        self.command(
            "buildah", "run", "--isolation", "chroot", "--user", "root", container, "--", "bash", "-euc", command
        )
        self.command("buildah", "commit", "--quiet", "--rm", container, name)

    def inside(self, tag: str, *words: str) -> str:
        """What a command in the image says, as the user and in the environment that the image has."""
        container = self.command("buildah", "from", "--pull-never", f"{REGISTRY}/atlas/training:{tag}").stdout.strip()
        try:
            return self.command("buildah", "run", "--isolation", "chroot", container, "--", *words).stdout
        finally:
            self.command("buildah", "rm", container)

    def layers(self, tag: str) -> list[str]:
        """The digests of the image's layers, the lowest first."""
        inspected = self.command("buildah", "inspect", "--type", "image", f"{REGISTRY}/atlas/training:{tag}").stdout
        digests: list[str] = json.loads(inspected)["OCIv1"]["rootfs"]["diff_ids"]
        return digests

    def configuration(self, tag: str) -> dict[str, Any]:
        """The image's configuration as OCI has it."""
        name = f"{REGISTRY}/atlas/training:{tag}"
        found = json.loads(self.command("buildah", "inspect", "--type", "image", name).stdout)
        configuration: dict[str, Any] = found["OCIv1"]["config"]
        return configuration


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    root, site = tmp_path_factory.mktemp("yard"), tmp_path_factory.mktemp("site")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
        copy(ROOT / part, root / part)
    dockerfile = root / "container/Dockerfile"
    # buildah 1.28 waits for itself where one RUN has two locked caches.
    dockerfile.write_text(dockerfile.read_text().replace(",sharing=locked", ""))
    (root / "bin").mkdir()
    (root / "caches").mkdir()
    for name, body in {"aws": AWS, "docker": DOCKER}.items():
        (root / "bin" / name).write_text(stand_ins.script(body))
        (root / "bin" / name).chmod(0o755)
    (root / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{root}/store"\nrunroot = "{root}/run"\n'
    )
    pinned = _published(site, root / "container/requirements")
    with stand_ins.served(site) as url:
        arguments = {variant: _arguments(variant, url, pinned, root) for variant in GROUPS}
        engine, nemo = (
            dict(_arguments("cuda", url, pinned, root, add=[each]).items() - arguments["cuda"].items())
            for each in ("transformer-engine", "nemo")
        )
        operator: dict[str, Any] = {"orchestrator": "hyperpod-eks", "hyperpod": {"training_operator": True}}
        agent = _arguments("cuda", url, pinned, root, **operator)
        yard = Yard(root, url, arguments, engine, nemo, agent)
        try:
            _bases(yard)
            yield yard
        finally:
            yard.command("buildah", "rm", "--all", check=False)
            yard.command("umount", str(root / "store/overlay"), check=False)
            shutil.rmtree(root / "store")


def _published(site: Path, requirements: Path) -> dict[str, dict[str, str]]:
    """Makes what is served, at the versions of the matrix, and the lists of it.

    Returns the checksums by what the matrix calls them.
    """
    versions = load_versions()
    engine, nemo = versions.transformer_engine[0].version, versions.nemo[0].version
    [plugin, wheel] = versions.aws_ofi_nccl[0], versions.pytorch[0]
    installer, tests = site / "efa.tar.gz", site / "nccl-tests.tar.gz"
    (site / "work").mkdir()
    stand_ins.efa_installer(
        installer, site / "work", libfabric=plugin.tested_with_libfabric[0], aws_ofi_nccl=plugin.version
    )
    stand_ins.nccl_tests(tests, site / "work")
    stand_ins.apt_repository(site / "apt")
    index = site / "simple"
    torch, brought = _pytorch(index, wheel, requirements)
    of_the_agent = next(each for each in versions.combinations if each.hyperpod_elastic_agent)
    older = release(versions.pytorch, of_the_agent.pytorch)
    assert older and of_the_agent.hyperpod_elastic_agent, "VERSION_RULES let nothing else pass"
    older_torch, older_brought = _pytorch(index, older, requirements)
    setuptools = stand_ins.real_wheels(index, BUILDERS[:1])
    job = [stand_ins.wheel(index, name, PINS[name], {f"{name}.py": ""}) for name in NAMES]
    job += stand_ins.real_wheels(index, [f"{name}=={PINS[name]}" for name in IMPORTED])
    tools = [stand_ins.wheel(index, name, "1", {}) for name in ("build", "ninja")]
    lists = {
        requirements_of("pytorch", wheel.version): [*brought, *setuptools],
        requirements_of("pytorch", older.version): [*older_brought, *setuptools],
        "build-tools.txt": [*tools, *stand_ins.real_wheels(index, BUILDERS[1:])],
        "training.txt": [*job, stand_ins.s3_connector(index, PINS["s3torchconnector"])],
        requirements_of("transformer-engine", engine): [stand_ins.wheel(index, "einops", "0.8.2", {})],
        requirements_of("nemo", nemo): stand_ins.nemo(index, nemo),
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
        f"pytorch=={wheel.version}": {"sha256": stand_ins.sha256(torch)},
        f"pytorch=={older.version}": {"sha256": stand_ins.sha256(older_torch)},
        "transformer_engine": stand_ins.transformer_engine(index, engine),
    }


def _pytorch(index: Path, wheel: PyTorch, requirements: Path) -> tuple[Path, list[Path]]:
    """A wheel of PyTorch of that version, and what it brings."""
    listed = (requirements / requirements_of("pytorch", wheel.version)).read_text()
    cudart = re.search(r"^nvidia-cuda-runtime==(\S+)", listed, re.MULTILINE)
    assert cudart, "PyTorch brings the CUDA runtime"
    return stand_ins.torch_wheel(index, wheel.version, cuda=wheel.cuda, cudart=cudart[1], nccl=wheel.nccl)


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
    return arguments | {"BASE_IMAGE": BASE, "CUDA_DEVEL_IMAGE": DEVEL}


def _bases(yard: Yard) -> None:
    """The base, whose apt and pip ask loopback, and the toolkit's image, which only has to compile."""
    container = yard.command("buildah", "from", "scratch").stdout.strip()
    stand_ins.base_system(Path(yard.command("buildah", "mount", container).stdout.strip()))
    yard.command("buildah", "umount", container)
    sources = f"rm -rf /etc/apt/sources.list*; echo 'deb [trusted=yes] {yard.url}/apt ./' >/etc/apt/sources.list"
    yard.command("buildah", "run", "--isolation", "chroot", container, "--", "bash", "-c", sources)
    yard.command("buildah", "config", "--env", f"PIP_INDEX_URL={yard.url}/simple", container)
    yard.command("buildah", "commit", "--quiet", "--rm", container, BASE)
    yard.derive(BASE, DEVEL, "mkdir /usr/local/cuda")


@pytest.fixture(scope="module")
def built(yard: Yard) -> Yard:
    """The image and its base, with the base as people supply a closed network with it."""
    done = yard.image("closed", yard.arguments["cuda"], STAGE_DATA_FILE=str(yard.root / "data"))
    assert done.returncode == 0, done.stdout + done.stderr
    return yard


def test_the_stage_reports_the_digest_of_what_it_built(built: Yard):
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", (built.root / "data").read_text())


def test_another_line_of_the_job_makes_one_layer(built: Yard):
    job = built.root / "training/train.py"
    right = job.read_text()
    job.write_text(f"{right}\n# another line\n")
    try:
        variables = {"NETWORK_ACCESS": "closed", "IMAGE_TAG": "edited", "BASE_TAG": "closed"}
        done = built.stage("image.sh", built.arguments["cuda"], **variables)
    finally:
        job.write_text(right)
    assert done.returncode == 0, done.stdout + done.stderr
    before, after = built.layers("closed"), built.layers("edited")
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


def test_a_job_is_not_root(built: Yard):
    assert built.inside("closed", "id", "--user").strip() == "1000"


def test_its_command_is_torchrun(built: Yard):
    configuration = built.configuration("closed")
    assert not configuration.get("Entrypoint")
    assert built.inside("closed", *configuration["Cmd"]).startswith("usage: torchrun")


def test_the_job_is_found_from_any_directory(built: Yard):
    assert "/opt/trainway/src/training" in built.inside(
        "closed", "python", "-c", "import training; print(training.__path__)"
    )


def test_nccls_tests_find_their_libraries(built: Yard):
    assert built.inside("closed", "all_reduce_perf") == ""
    assert "/opt/nccl/lib/libnccl.so.2" in built.inside("closed", "ldd", "/opt/nccl-tests/bin/all_reduce_perf")


START = "import ctypes, os; plugin = ctypes.CDLL('libnccl-net-ofi.so'); plugin.ncclOfiStart()"


def test_the_plugin_is_found_by_its_name_and_finds_the_cuda_runtime(built: Yard):
    assert built.inside("closed", "python", "-c", START) == "on to the driver\n"


def test_a_process_that_sshd_starts_finds_the_cuda_runtime(built: Yard):
    plugin = "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
    start = START.replace("libnccl-net-ofi.so", plugin)
    environment = ["env", "--ignore-environment", "LD_LIBRARY_PATH=/opt/amazon/efa/lib"]
    assert built.inside("closed", *environment, "python3", "-c", start) == "on to the driver\n"


def test_plugin_and_pytorch_have_one_cuda_runtime(built: Yard):
    link = built.inside("closed", "readlink", "--canonicalize", "/usr/local/lib/libcudart.so").strip()
    assert re.fullmatch(r"/opt/trainway/lib/python[\d.]+/site-packages/nvidia/cu13/lib/libcudart.so.13", link)


def test_neither_archives_nor_package_lists_are_in_it(built: Yard):
    kept = built.inside(
        "closed", "bash", "-c", "ls /tmp/efa /var/cache/apt /var/lib/apt /root/.cache/pip 2>/dev/null || true"
    )
    assert "tar.gz" not in kept and "Packages" not in kept and "whl" not in kept


def test_what_was_installed_has_the_date_of_the_image_and_not_of_the_build(built: Yard):
    """Two builds with the same packages have the same layers, so that a node fetches each layer once."""
    date = f"@{built.arguments['cuda']['SOURCE_DATE_EPOCH']}"
    assert built.inside("closed", "find", "/opt/trainway/lib", "/etc/passwd", "-newermt", date) == ""
    # Modules are checked by the hash of their source: https://peps.python.org/pep-0552/ (read 2026-11-23)
    flags = "import pathlib; print({file.read_bytes()[4] for file in pathlib.Path('/opt/trainway').rglob('*.pyc')})"
    assert built.inside("closed", "python", "-c", flags) == "{3}\n"


def test_its_labels_are_the_matrix(built: Yard):
    labels = built.configuration("closed")["Labels"]
    arguments = built.arguments["cuda"]
    versions = {name: value for name, value in labels.items() if name.startswith("trainway.")}
    assert versions == {
        "trainway.versions": "pytorch-2.13",
        "trainway.variant": "cuda",
        "trainway.efa-installer": arguments["EFA_INSTALLER_VERSION"],
        "trainway.hyperpod-elastic-agent": "",
        "trainway.libfabric": arguments["LIBFABRIC_VERSION"],
        "trainway.aws-ofi-nccl": arguments["AWS_OFI_NCCL_VERSION"],
        "trainway.cuda": arguments["CUDA_VERSION"],
        "trainway.nccl": arguments["NCCL_VERSION"],
        "trainway.nccl-tests": arguments["NCCL_TESTS_VERSION"],
        "trainway.nemo": "",
        "trainway.pytorch": arguments["PYTORCH_VERSION"],
        "trainway.transformer-engine": "",
    }
    assert labels["org.opencontainers.image.revision"] == "closed"


def test_every_variable_that_the_dockerfile_explains_is_set_and_no_other(built: Yard):
    text = (ROOT / "container/Dockerfile").read_text()
    explained = set(re.findall(r"^# ([A-Z][A-Z_]+[A-Z])  +\S", text, re.MULTILINE))
    of_the_build = {"PATH", "DEBIAN_FRONTEND", "PIP_INDEX_URL"}
    variables = {each.partition("=")[0] for each in built.configuration("closed")["Env"]}
    assert variables - of_the_build == explained


FI_INFO = "/opt/amazon/efa/bin/fi_info"
PLUGIN = "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
PYTORCH = "/opt/trainway/lib/python*/site-packages/torch/__init__.py"
LIBFABRIC = "/opt/amazon/efa/lib/libfabric.so.1"
OLD_RUNTIME = "nvidia-cuda-runtime-cu12==12.9.79"
LINK = "/usr/local/lib/libcudart.so"
OPENERS = (PLUGIN, LIBFABRIC)
NOT_FOUND = "libcudart.so: cannot open shared object file: No such file or directory"
# Commands that damage a base, and what is said of it: faults that do not hide one another.
DAMAGES = {
    "another-release": (
        [
            f"sed -i s/2.4.0amzn/1.9.0amzn/g {FI_INFO}",
            "sed -i s/1.20.0-1/1.19.0-1/ /var/lib/dpkg/status",
            f"sed -i 's/^__version__.*/__version__ = \"2.12.1\"/' {PYTORCH}",
            f'sed -i \'s/cuda="13.0"/cuda="12.9"/\' {PYTORCH}',
            f"sed -i 's/(2, 29, 7)/(2, 28, 9)/' {PYTORCH}",
        ],
        [
            "libfabric is 1.9.0amzn5.0, expected 2.4.0amzn5.0",
            "aws-ofi-nccl is 1.19.0, expected 1.20.0",
            "PyTorch is 2.12.1, expected 2.13.0",
            "CUDA is 12.9, expected 13.0",
            "NCCL is 2.28.9, expected 2.29.7",
        ],
    ),
    "a-part-missing": (
        [f"sed -i s/efa:/efa_shm:/ {FI_INFO}", f"rm {PLUGIN}", "rm /opt/nccl-tests/bin/all_reduce_perf"],
        [
            "libfabric has no efa provider",
            "no libnccl-net-ofi.so below /opt/amazon/ofi-nccl",
            "no /opt/nccl-tests/bin/all_reduce_perf",
        ],
    ),
    "a-library-missing": (
        [f"rm {LIBFABRIC}", "rm /opt/nccl"],
        [
            f"{PLUGIN} cannot find libfabric.so.1",
            "/opt/nccl-tests/bin/all_reduce_perf cannot find libnccl.so.2",
        ],
    ),
    "the-link-left-out": (
        [f"rm {LINK}", "ldconfig"],
        [f"{opener} opens libcudart.so at run time and cannot: {NOT_FOUND}" for opener in OPENERS],
    ),
    "another-cuda": (
        [
            f"/opt/trainway/bin/pip install --quiet --no-deps --target /opt/old {OLD_RUNTIME}",
            f"ln -sf /opt/old/nvidia/cuda_runtime/lib/libcudart.so.12 {LINK}",
            "ldconfig",
        ],
        [f"{opener} opens libcudart.so at run time, which is CUDA 12.9, not CUDA 13.0" for opener in OPENERS],
    ),
    "the-plugin-elsewhere": (
        ["mkdir /opt/amazon/ofi-nccl/old", f"mv {PLUGIN} /opt/amazon/ofi-nccl/old/"],
        [f"NCCL cannot open libnccl-net-ofi.so: {NOT_FOUND.replace('libcudart', 'libnccl-net-ofi')}"],
    ),
}


CHECKSUMS = ("EFA_INSTALLER_SHA256", "NCCL_TESTS_SHA256", "PYTORCH_SHA256")


@pytest.mark.parametrize("name", with_representatives(DAMAGES, ("a-part-missing",)))
def test_a_build_with_something_wrong_in_it_fails_and_says_what(built: Yard, name: str):
    commands, faults = DAMAGES[name]
    broken = f"localhost/broken:{name}"
    built.derive(f"{REGISTRY}/atlas/mirror/training-base:closed", broken, " && ".join(commands))
    done = built.image(name, built.arguments["cuda"], INSTEAD=f"python=docker-image://{broken}")
    assert done.returncode != 0
    assert re.findall(r"^verify_image: (.*)$", done.stderr, re.MULTILINE) == faults
    assert not (built.root / "ecr/atlas/training" / name).exists()


@pytest.mark.parametrize("name", with_representatives(CHECKSUMS, ("NCCL_TESTS_SHA256",)))
def test_a_download_with_another_checksum_fails_the_build(built: Yard, name: str):
    done = built.image(name.lower(), built.arguments["cuda"] | {name: "0" * 64})
    assert done.returncode != 0
    assert re.search(r"computed checksum did NOT match|DO NOT MATCH THE HASHES", done.stdout + done.stderr)


@pytest.mark.exhaustive
def test_an_image_for_cpus_has_no_network_but_the_hosts(built: Yard):
    done = built.image("cpu", built.arguments["cpu"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.inside("cpu", "torchrun", "--help").startswith("usage: torchrun")
    assert built.inside("cpu", "bash", "-c", "ls -d /opt/amazon /opt/nccl-tests 2>/dev/null || echo none") == "none\n"
    assert not any(each.startswith("NCCL_") for each in built.configuration("cpu")["Env"])


@pytest.mark.exhaustive
def test_transformer_engine_is_compiled_and_checked(built: Yard):
    arguments = built.arguments["cuda"] | built.transformer_engine
    done = built.image("engine", arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    version = arguments["TRANSFORMER_ENGINE_VERSION"]
    read = "import importlib.metadata; print(importlib.metadata.version('transformer_engine_torch'))"
    assert built.inside("engine", "python", "-c", read) == f"{version}\n"
    assert built.configuration("engine")["Labels"]["trainway.transformer-engine"] == version
    other = built.image("engine-other", arguments | {"TRANSFORMER_ENGINE_TORCH_SHA256": "0" * 64})
    assert "DO NOT MATCH THE HASHES" in other.stdout + other.stderr


@pytest.mark.exhaustive
def test_nemo_is_installed_from_its_list_and_started(built: Yard):
    arguments = built.arguments["cuda"] | built.nemo
    done = built.image("nemo", arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.inside("nemo", "automodel").startswith("usage: automodel")
    labels = built.configuration("nemo")["Labels"]
    assert (labels["trainway.nemo"], labels["trainway.transformer-engine"]) == (arguments["NEMO_VERSION"], "")


@pytest.mark.exhaustive
def test_a_platform_with_the_training_operator_has_hyperpodrun(built: Yard):
    done = built.image("agent", built.agent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--shutdown-signal" in built.inside("agent", "hyperpodrun", "--help")
    labels = built.configuration("agent")["Labels"]
    assert labels["trainway.hyperpod-elastic-agent"] == built.agent["HYPERPOD_ELASTIC_AGENT_VERSION"]
    assert labels["trainway.versions"] == "pytorch-2.11"


@pytest.mark.exhaustive
def test_the_agent_is_refused_by_a_pytorch_that_is_too_new_for_it(built: Yard):
    agent = {name: value for name, value in built.agent.items() if name.startswith("HYPERPOD_")}
    done = built.image("agent-too-new", built.arguments["cuda"] | agent)
    assert done.returncode != 0
    assert "has requirement torch<2.12.0,>=2.4.0, but you have torch 2.13.0" in done.stdout + done.stderr


@pytest.mark.exhaustive
def test_nemo_and_transformer_engine_are_in_one_image(built: Yard):
    done = built.image("both", built.arguments["cuda"] | built.transformer_engine | built.nemo)
    assert done.returncode == 0, done.stdout + done.stderr
    read = "import importlib.metadata as m; print(m.version('transformer_engine_torch'), m.version('nemo-automodel'))"
    versions = load_versions()
    found = built.inside("both", "python", "-c", read).split()
    assert found == [versions.transformer_engine[0].version, versions.nemo[0].version]


PYTORCH_LIST = requirements_of("pytorch", load_versions().pytorch[0].version)
NEMO_LIST = requirements_of("nemo", load_versions().nemo[0].version)
OTHER_CHECKSUM = "s/sha256:.\\{8\\}/sha256:00000000/"


@pytest.mark.parametrize(
    ("name", "edit", "says"),
    [
        ("build-tools.txt", "/^build==/,+1d", "missing: 'build'"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("training.txt", OTHER_CHECKSUM, "DO NOT MATCH THE HASHES"),
                (PYTORCH_LIST, "/^nvidia-cudnn/,+1d", "requires nvidia-cudnn-cu13, which is not installed"),
                ("training.txt", "/^annotated-types/,+1d", "requires annotated-types, which is not installed"),
                (NEMO_LIST, OTHER_CHECKSUM, "DO NOT MATCH THE HASHES"),
                (NEMO_LIST, "/^transformers/,+1d", "requires transformers, which is not installed"),
            )
        ),
    ],
)
def test_a_list_that_is_not_what_is_published_or_not_whole_fails_the_build(
    built: Yard, name: str, edit: str, says: str
):
    file = built.root / "container/requirements" / name
    right = file.read_text()
    built.command("sed", "--in-place", edit, str(file))
    try:
        done = built.image("faulty", built.arguments["cuda"] | built.nemo)
    finally:
        file.write_text(right)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


@pytest.mark.exhaustive
def test_an_image_for_neuron_keeps_what_its_base_has(built: Yard):
    packages = "/usr/local/lib/python3.11/dist-packages"
    download = f"zipfile.ZipFile(io.BytesIO(urllib.request.urlopen('{built.torch}').read())).extractall('{packages}')"
    numpy = f"{packages}/numpy-1.26.4.dist-info"
    sdk = [
        f'python3 -c "import io, urllib.request, zipfile; {download}"',
        f"mkdir -p {packages}/torch_neuronx {packages}/nvidia/nccl {numpy} /opt/amazon/efa/bin",
        f"printf 'Metadata-Version: 2.1\\nName: numpy\\nVersion: 1.26.4\\n' >{numpy}/METADATA",
        f"touch {numpy}/RECORD",
        "printf '#!/bin/sh\\necho efa:\\n' >/opt/amazon/efa/bin/fi_info",
        "chmod +x /opt/amazon/efa/bin/fi_info",
    ]
    built.derive(BASE, "localhost/neuron:1", " && ".join(sdk))
    done = built.image("neuron", built.arguments["neuron"] | {"BASE_IMAGE": "localhost/neuron:1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.inside("neuron", "python", "-c", "import torch; print(torch.__file__)").startswith(packages)
    read = "import importlib.metadata; print(importlib.metadata.version('numpy'))"
    assert built.inside("neuron", "python", "-c", read) == "1.26.4\n"
