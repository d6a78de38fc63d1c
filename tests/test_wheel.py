"""The wheel, in an environment that has never seen a checkout: it checks, plans, and launches without one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from emulator import Emulator, running
from tests.known_day import ON_KNOWN_DAY
from tests.launch.conftest import write_job
from tests.launch.test_commands import EKS, SLURM, deploy
from tests.synthesis import ROOT, assembly_in
from tests.wheel_environment import WheelEnvironment, build_wheel, install_wheel, megabytes

ATLAS = ROOT / "platform.yaml"
EXTENSION = """\
def extend(app, platform, stacks):
    stacks.group("train").override("ScalingConfig.MaxSize", 77)
"""
# What a checkout has at its top, and what none but an extra brings.
FOREIGN = ("app", "container", "delivery", "emulator", "stacks", "tests", "training")
EXTRAS = ("aws_cdk", "hypothesis", "jinja2", "matplotlib", "moto", "numpy", "torch")
# The page of the report alone is written with the packages of an extra.
IMPORT_ALL = """\
import importlib, pkgutil, trainway
for module in pkgutil.walk_packages(trainway.__path__, "trainway."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if not module.name.startswith("trainway.report.") or error.name not in ("jinja2", "markupsafe", "matplotlib"):
            raise
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> WheelEnvironment:
    directory = tmp_path_factory.mktemp("wheel")
    environment = install_wheel(build_wheel(directory / "dist"), directory)
    shutil.copy(ATLAS, environment.work / "platform.yaml")
    return environment


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_base_is_small_and_has_one_name(wheel: WheelEnvironment) -> None:
    assert megabytes(wheel.site) < 100
    names = {path.stem for path in wheel.site.iterdir()}
    assert "trainway" in names
    assert names.isdisjoint((*FOREIGN, *EXTRAS))
    found = wheel.python(f"import importlib.util as u; print([n for n in {(*FOREIGN, *EXTRAS)} if u.find_spec(n)])")
    assert succeeded(found) == "[]\n"


def test_every_module_is_imported_without_an_extra(wheel: WheelEnvironment) -> None:
    succeeded(wheel.python(IMPORT_ALL))


# Each of the other tests runs a command of the wheel.
@pytest.mark.exhaustive
def test_it_says_what_it_is(wheel: WheelEnvironment) -> None:
    assert succeeded(wheel.trainway("--version")).startswith("trainway ")
    assert "platform.yaml" in succeeded(wheel.trainway("check", "--help"))
    assert "p5.48xlarge" in succeeded(wheel.trainway("instances"))
    assert json.loads(succeeded(wheel.trainway("schema")))["title"] == "Platform"


def test_it_checks_a_good_file_and_a_wrong_one(wheel: WheelEnvironment) -> None:
    assert "no problems" in succeeded(wheel.trainway("check", "platform.yaml", *ON_KNOWN_DAY))
    wrong = yaml.safe_load(ATLAS.read_text(encoding="utf-8")) | {"image": {"versions": "pytorch-1.0"}}
    (wheel.work / "wrong.yaml").write_text(yaml.safe_dump(wrong), encoding="utf-8")
    said = wheel.trainway("check", "wrong.yaml", *ON_KNOWN_DAY)
    assert (said.returncode, "Traceback" in said.stderr) == (2, False)
    assert "there is no such combination" in said.stderr


def test_it_plans_and_writes_manifests(wheel: WheelEnvironment) -> None:
    assert json.loads(succeeded(wheel.trainway("plan", "--json")))["subnets"]
    succeeded(wheel.trainway("manifests", "platform.yaml", "--out", "gitops"))
    assert list((wheel.work / "gitops").rglob("*.yaml"))


def test_it_renders_a_job_for_every_target(
    wheel: WheelEnvironment, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    for platform in (EKS, SLURM):
        (wheel.work / f"{platform.name}.yaml").write_text(platform.model_dump_json(exclude_defaults=True))
        deploy(platform)
    mirrored = {"data": {"train": "s3:/corpus/small"}}
    job = write_job(wheel.work, nodes=2, batch={"global": 64, "micro": 1}, team="research", **mirrored)
    kept = wheel.work / "remote.yaml"
    job.rename(kept)
    targets = {"kubernetes": "eks", "slurm": "slurm", "sagemaker": "eks"}
    for target, name in targets.items():
        options = [f"--target={target}", f"--platform={name}.yaml", "--group=train", "--dry-run"]
        assert "training.elastic" in succeeded(wheel.trainway("launch", str(kept), *options, **emulator.environment()))
    here = write_job(wheel.work, data={"train": "s3://corpus/small"}, checkpoint={"location": "s3://corpus/ckpt"})
    said = succeeded(wheel.trainway("launch", str(here), "--dry-run"))
    assert f"PYTHONPATH={wheel.site}/trainway/_checkout" in said
    assert said.strip().endswith("python3 -m training.elastic")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        # The lines of the others are made in the same way.
        (["demo"], "emulator,platform,report,training"),
        pytest.param(["emulator", "start"], "emulator", marks=pytest.mark.exhaustive),
        pytest.param(["app"], "platform", marks=pytest.mark.exhaustive),
        pytest.param(["report", "runs/none"], "report", marks=pytest.mark.exhaustive),
        pytest.param(["launch", "local.yaml"], "training", marks=pytest.mark.exhaustive),
    ],
)
def test_what_needs_an_extra_names_it(wheel: WheelEnvironment, arguments: list[str], extra: str) -> None:
    write_job(wheel.work, data={"train": "corpus"}).rename(wheel.work / "local.yaml")
    said = wheel.trainway(*arguments)
    assert (said.returncode, said.stdout, "Traceback" in said.stderr) == (2, "", False), said.stderr
    assert said.stderr.endswith(f"fix: pip install 'trainway[{extra}]'\n")
    assert not (wheel.work / "runs").exists()


# A planted error: `trainway check` of a wheel without errors is in `make test`.
@pytest.mark.exhaustive
def test_a_module_that_climbs_out_of_the_package_is_found(wheel: WheelEnvironment, tmp_path: Path) -> None:
    shutil.copytree(wheel.site / "trainway", tmp_path / "trainway")
    module = tmp_path / "trainway/spec/facts/versions.py"
    right = 'VERSIONS_FILE: Final = FACTS / "versions.yaml"'
    climbing = 'VERSIONS_FILE: Final = FACTS.parents[2] / "container" / "versions.yaml"'
    text = module.read_text(encoding="utf-8")
    assert right in text
    module.write_text(text.replace(right, climbing), encoding="utf-8")
    assert wheel.trainway("check", PYTHONPATH=str(tmp_path)).returncode != 0


def test_a_file_of_the_checkout_cannot_be_read(wheel: WheelEnvironment) -> None:
    said = wheel.python(f"open({str(ATLAS)!r})")
    assert "is in the checkout" in said.stderr


def test_it_synthesizes_the_templates_of_the_checkout(wheel: WheelEnvironment, tmp_path: Path) -> None:
    """With the extra `platform`, which the tests' environment has. The wheel comes before the checkout on its path.

    The platform's extension, beside its file, raises a property.
    """
    out, extended = tmp_path / "cdk.out", tmp_path / "platform.yaml"
    extended.write_text(ATLAS.read_text(encoding="utf-8") + "\nextend: extensions.py\n", encoding="utf-8")
    (tmp_path / "extensions.py").write_text(EXTENSION, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(wheel.site),
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": json.dumps({"platform": str(extended)}),
    }
    (wheel.site / "zz_away.pth").unlink()
    app = [sys.executable, "-m", "trainway.cli", "app"]
    line = subprocess.run(app, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()
    assert line == f"{sys.executable} {wheel.site}/trainway/_checkout/app.py"
    done = subprocess.run(line, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made, expected = templates_in(out), templates_in(assembly_in(ATLAS))
    for templates in (made, expected):
        # One has the hash of the extension, and the other the platform file, which names it.
        for differs in ("HandOff", "PlatformFile"):
            del templates["first-cluster.template.json"]["Resources"][differs]
    expected["first-cluster.template.json"]["Resources"]["TrainNodes"]["Properties"]["ScalingConfig"]["MaxSize"] = 77
    assert made == expected


def templates_in(assembly: Path) -> dict[str, dict[str, Any]]:
    found = {file.name: json.loads(file.read_text("utf-8")) for file in assembly.glob("*.template.json")}
    assert found
    return found
