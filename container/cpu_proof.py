"""Build the training image's CPU variant with BuildKit, and train in it without a GPU: `make image-proof-cpu`.

The tests build the image from stand-ins. This script builds container/Dockerfile with the real packages of the default
combination. It then starts a container of the image without a network, as the user of the jobs, and runs each step of
STEPS in it. It prints one line for each step, with its seconds and its verdict.

It needs a Docker daemon with buildx, access to the registry of the base image, to the package archive of Ubuntu, and to
the Python package index, and 25 GB of disk. It needs no GPU and no AWS account. The image is deleted at the end. The
builder's cache stays.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from delivery.content_hash import image_hash
from delivery.user_dockerfile import OPTIONS
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOG = ROOT / "build" / "image-proof-cpu.log"
# Directories of the container, in place of a file system and a bucket.
FSX, S3 = "/tmp/fsx", "/tmp/s3"
TRAINED_STEPS = 40
RANKS = 2
# The status of a command that could not start, as argparse has it.
UNUSABLE = 2

USER = """\
import os
found = os.getuid(), os.getgid(), os.getcwd()
assert found == (1000, 1000, "/home/trainer"), found
print("user 1000")
"""
# PINS has NAME==VERSION of every list. A list can pin a package that another one pins, too.
IMPORTS = """\
import importlib, importlib.metadata as metadata, os, pkgutil, re, sys, warnings
warnings.simplefilter("ignore")
pins = {}
for pin in PINS:
    name, _, version = pin.partition("==")
    pins.setdefault(name, set()).add(version)
faults, imported = [], 0
for name, versions in pins.items():
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        faults.append(f"{name} is not installed")
        continue
    if distribution.version not in versions:
        faults.append(f"{name} is {distribution.version}, expected {' or '.join(sorted(versions))}")
    files = [file.parts for file in distribution.files or () if file.suffix == ".py" and file.parts[0] != ".."]
    tops = {parts[0].removesuffix(".py") for parts in files}
    for top in sorted(each for each in tops if each.isidentifier()):
        try:
            importlib.import_module(top)
            imported += 1
        except BaseException as error:
            faults.append(f"{name}: import {top}: {type(error).__name__}: {error}")
import training
for module in pkgutil.walk_packages(training.__path__, "training."):
    try:
        importlib.import_module(module.name)
        imported += 1
    except ModuleNotFoundError as error:
        # The packages of trackers are in an image only if its platform file names them.
        if error.name not in ("comet_ml", "mlflow", "wandb"):
            faults.append(f"import {module.name}: {type(error).__name__}: {error}")
    except BaseException as error:
        faults.append(f"import {module.name}: {type(error).__name__}: {error}")
print(f"{len(pins)} packages, {imported} modules")
sys.exit("\\n".join(faults) or 0)
"""
COMPILE = """\
import os
from pathlib import Path
import torch
def function(x):
    return torch.nn.functional.gelu(x @ x.T).sum(dim=0)
sample = torch.randn(64, 64)
torch.testing.assert_close(torch.compile(function, fullgraph=True)(sample), function(sample))
libraries = [*Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.so")]
assert libraries, "torch.compile built no library"
print(f"{len(libraries)} libraries by g++")
"""
LOSSES = """\
import json, sys
from pathlib import Path
events = [json.loads(line) for line in Path(sys.argv[1], "metrics.jsonl").read_text().splitlines()]
losses = {event["step"]: event["loss"] for event in events if event["event"] == "step"}
steps = int(sys.argv[2])
assert max(losses) == steps, f"the last step is {max(losses)}, expected {steps}"
first, last = losses[min(losses)], losses[steps]
assert last < first, f"the loss did not fall: {first:.2f}, then {last:.2f}"
print(f"loss {first:.2f} -> {last:.2f} in {steps} steps")
"""


class Fault(Exception):
    """A step failed. The text is what the step printed."""


@dataclass(frozen=True)
class Options:
    """What differs between networks, and where the output of every command goes.

    Without `base_image`, the image begins with that of the combination. `authorities` is a file of certificates.
    """

    base_image: str | None = None
    authorities: Path | None = None
    log: Path = LOG


def arguments_of(options: Options) -> dict[str, str]:
    """Return the Dockerfile's arguments for the default combination without an accelerator."""
    group = {"name": "train", "instance_type": "m7i.8xlarge", "count": 1}
    platform = Platform.model_validate({"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group]})
    arguments = build_arguments(platform, load_catalogue(), load_versions())
    # As with image.base of a platform file, apt keeps the sources of a base that is not the combination's.
    return arguments | ({"BASE_IMAGE": options.base_image, "UBUNTU_SNAPSHOT": ""} if options.base_image else {})


def pins_of(lists: Iterable[Path]) -> list[str]:
    """Return the packages of lists of container/requirements as NAME==VERSION."""
    return [pin for file in lists for pin in re.findall(r"^\S+==\S+", file.read_text(encoding="utf-8"), re.MULTILINE)]


def missing(options: Options) -> str | None:
    """Return what this machine lacks for the proof with the remedy, or None."""
    if shutil.which("docker") is None:
        return "docker is not installed. Install Docker Engine with the buildx plugin"
    if options.authorities and not options.authorities.is_file():
        return f"--authorities {options.authorities}: no such file. Name a file of certificates in PEM"
    for words, remedy in {
        ("info",): "start the daemon, or set DOCKER_HOST to one that you may use; most daemons need root",
        ("buildx", "version"): "install the package docker-buildx or docker-buildx-plugin",
    }.items():
        done = subprocess.run(["docker", *words], check=False, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            return f"docker {' '.join(words)}: {' '.join(last)}. Fix: {remedy}"
    return None


def run(log: Path, command: list[str], text: str | None = None) -> str:
    """Run a command to its end, add what it prints to the log, and return it. Raises Fault with its end on failure."""
    done = subprocess.run(command, check=False, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with log.open("a", encoding="utf-8") as kept:
        kept.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    if done.returncode:
        raise Fault(f"status {done.returncode}:\n{done.stdout[-4000:].strip()}")
    return done.stdout


def build(tag: str, arguments: Mapping[str, str], options: Options) -> str:
    """Build the image and return the version of the builder."""
    given = [word for item in arguments.items() for word in ("--build-arg", "=".join(item))]
    secret = ["--secret", f"id=authorities,src={options.authorities}"] if options.authorities else []
    # How layers are compressed does not matter to what runs, and compression takes minutes.
    output = f"type=image,name={tag},compression=uncompressed"
    run(
        options.log,
        [
            *("docker", "buildx", "build", "--platform", "linux/amd64", "--network", "host", "--provenance=false"),
            *("--progress=plain", "--file", str(HERE / "Dockerfile"), "--target", "training", "--output", output),
            *(*given, *secret, str(ROOT)),
        ],
    )
    return f"Docker {run(options.log, ['docker', 'version', '--format', '{{.Server.Version}}']).strip()}"


class Container:
    """A container of an image, without a network, as the user of jobs."""

    def __init__(self, tag: str, log: Path) -> None:
        self.log = log
        variables = {
            "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
            "TRAINWAY_LOCATIONS": json.dumps({"fsx": FSX, "s3": S3}),
            "TRAINWAY_RUN": f"{FSX}/run",
            "TRAINWAY_MEMORY": "/tmp/memory",
        }
        words = [word for item in variables.items() for word in ("--env", "=".join(item))]
        started = ["docker", "run", "--detach", "--init", "--network", "none", "--hostname", "localhost"]
        started += ["--user", "1000:1000"]
        self.id = run(log, [*started, "--shm-size", "1g", *words, tag, "sleep", "infinity"]).split()[-1]

    def run(self, *words: str, text: str | None = None) -> str:
        """Run a command in the container, with `text` on its standard input, and return what it prints."""
        interactive = [] if text is None else ["--interactive"]
        return run(self.log, ["docker", "exec", *interactive, self.id, *words], text)

    def python(self, program: str, *words: str) -> str:
        """Run a Python program in the container and return the last line that it prints."""
        return self.run("python", "-", *words, text=program).strip().splitlines()[-1]

    def delete(self) -> None:
        """Stop and delete the container."""
        run(self.log, ["docker", "rm", "--force", self.id])


def verify(container: Container, arguments: Mapping[str, str]) -> str:
    """Run verify_image.py as the build does, and its checks of what additions to an image can break."""
    options = [word for option, name in OPTIONS.items() for word in (option, arguments.get(name, ""))]
    program = (HERE / "verify_image.py").read_text(encoding="utf-8")
    container.run("python", "-", arguments["VARIANT"], "--added", *options, text=program)
    return "no fault"


def imports(container: Container, arguments: Mapping[str, str]) -> str:
    """Import every package of the image's lists and every module of the job."""
    names = (f"pytorch-{arguments['PYTORCH_VERSION']}", "build-tools", "training")
    pins = [f"torch=={arguments['PYTORCH_VERSION']}", *pins_of(HERE / "requirements" / f"{name}.txt" for name in names)]
    return container.python(f"PINS = {pins!r}\n{IMPORTS}")


def prepare(container: Container, _: Mapping[str, str]) -> str:
    """Make the corpus of the tiny job from the sources of the image's Python."""
    text = ("--corpus", "python-stdlib", "--limit-bytes", "2000000", "--vocabulary", "2048")
    container.run("python", "-m", "training.prepare", *text, "--out", "fsx:/corpus/python-stdlib")
    return "python-stdlib, 2 MB"


def train(container: Container, _: Mapping[str, str]) -> str:
    """Train the tiny job on two ranks that talk by gloo, and return how its loss fell."""
    container.run("tee", "/tmp/job.yaml", text=(ROOT / "examples/jobs/tiny.yaml").read_text(encoding="utf-8"))
    job = ("-m", "training.train", "--config", "/tmp/job.yaml", "--until-step", str(TRAINED_STEPS))
    container.run("torchrun", "--standalone", "--nproc-per-node", str(RANKS), *job)
    return container.python(LOSSES, f"{FSX}/run", str(TRAINED_STEPS))


STEPS: dict[str, Callable[[Container, Mapping[str, str]], str]] = {
    "user": lambda container, _: container.python(USER),
    "verify_image.py": verify,
    "imports": imports,
    "torch.compile": lambda container, _: container.python(COMPILE),
    "training.prepare": prepare,
    "training.train": train,
}


def timed(name: str, step: Callable[[], str]) -> bool:
    """Run a step, print its line, and return whether it succeeded."""
    began = time.monotonic()
    try:
        said, verdict = step(), "ok"
    except Fault as fault:
        said, verdict = str(fault), "FAILED"
    print(f"{name:<18}{time.monotonic() - began:>8.1f} s  {verdict:<8}{said}", flush=True)
    return verdict == "ok"


def prove(options: Options) -> bool:
    """Build the image, run every step in a container of it, and return whether all succeeded."""
    arguments = arguments_of(options)
    tag = f"trainway-image-proof:{image_hash(ROOT, 'image', arguments)}"
    print(f"image {tag.partition(':')[2]} on {arguments['BASE_IMAGE']}, {arguments['MATRIX_NAME']}", flush=True)
    if not timed("build", lambda: build(tag, arguments, options)):
        return False
    try:
        container = Container(tag, options.log)
        try:
            # Each step runs, so that one run shows every fault.
            verdicts = [timed(name, partial(step, container, arguments)) for name, step in STEPS.items()]
            return all(verdicts)
        finally:
            container.delete()
    finally:
        run(options.log, ["docker", "image", "rm", "--force", tag])


def main() -> int:
    """Print a line for each step; return 0, 1 after a step that failed, or 2 if the machine lacks something."""
    parser = argparse.ArgumentParser(
        prog="cpu_proof.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tag", action="store_true", help="print the tag of the image, and build nothing")
    parser.add_argument(
        "--base-image", metavar="IMAGE", help="Ubuntu 24.04 by another name (default: the combination's, by its digest)"
    )
    parser.add_argument(
        "--authorities",
        type=Path,
        metavar="FILE",
        help="certificates that pip and apt trust during the build, for a proxy that ends TLS (default: the image's)",
    )
    parser.add_argument(
        "--log",
        type=Path,
        default=LOG,
        metavar="FILE",
        help="where the output of every command goes (default: %(default)s)",
    )
    given = parser.parse_args()
    options = Options(given.base_image, given.authorities, given.log)
    if given.tag:
        print(image_hash(ROOT, "image", arguments_of(options)))
        return 0
    if lacks := missing(options):
        print(f"image-proof-cpu: {lacks}", file=sys.stderr)
        return UNUSABLE
    options.log.parent.mkdir(exist_ok=True)
    options.log.write_text("", encoding="utf-8")
    try:
        succeeded = prove(options)
    except Fault as fault:
        print(f"image-proof-cpu: {fault}", file=sys.stderr)
        succeeded = False
    print(f"{'every step succeeded' if succeeded else 'FAILED'}; {options.log} has what the steps printed")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
