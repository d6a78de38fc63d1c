"""A dry run shows one line in the place of the launcher's own files, and `--full` shows what is submitted."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.slurm.requests import IMAGE, on_slurm
from trainway.cli import app
from trainway.launch.job_file.programs import program_of
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import (
    METRICS,
    PASSED_SIGNALS,
    RUN_FILES,
    STARTER,
    LockedPackages,
    Program,
)
from trainway.launch.program.request import Request
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.target.known import target_named
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff

LEFT_OUT = re.compile(r"^ *# Left out: (\d+) files of Trainway with ([\d,]+) lines, .* --full prints them\.$", re.M)
# A script with the delimiter of its own here-document, and a lock: both are the user's, and stay.
SCRIPT = "cat <<'END'\nsome text\nEND\n"
LOCK = LockedPackages("trl==1.16.0 --hash=sha256:" + "0" * 64, is_for_image=True)
KINDS = ("TrainJob", "PyTorchJob", "HyperPodPyTorchJob", "MPIJob", "JobSet", "RayJob")


def program(kind: str) -> Program:
    commands = {"RayJob": ["python", "train.py"], "HyperPodPyTorchJob": ["torchrun", "train.py"]}
    run = {"command": commands[kind]} if kind in commands else {"script": SCRIPT}
    document = {"name": "foreign", "nodes": 2, "team": "research", "run": {**run, "metrics": "training.jsonl"}}
    return replace(program_of(document, yaml.safe_dump(document)), lock=LOCK)


def rendered(of: Program, hand_off: HandOff, target: str, options: object) -> str:
    request = Request(of, "first", hand_off, IMAGE, allocate(of, hand_off, load_catalogue()))
    return target_named(target, cannot="launched").render(request, load_catalogue(), options)


def of_kind(kind: Any) -> str:
    platform = platform_named("governance" if kind == "HyperPodPyTorchJob" else "kueue")
    hand_off = hand_off_of(platform)
    return rendered(program(kind), hand_off, "kubernetes", KubernetesOptions(kind=kind))


@pytest.fixture
def script(hand_off: HandOff) -> str:
    on = on_slurm(hand_off, instance_type="p5.48xlarge")
    return rendered(program("script"), on, "slurm", SlurmOptions())


def check_numbers(shown: str, whole: str, names: set[str]) -> None:
    """Check the numbers of the line against the files themselves, whose `names` the document has."""
    [found] = LEFT_OUT.finditer(shown)
    files = [each for each in STARTER.parent.glob("[!_]*.py") if each.name in names]
    texts = [each.read_text() for each in files]
    assert int(found[1]) == len(texts) and int(found[2].replace(",", "")) == sum(len(t.splitlines()) for t in texts)
    assert len(whole.splitlines()) - len(shown.splitlines()) > 1000


def test_a_script_shows_its_own_lines_and_those_of_the_user(script: str) -> None:
    shown = target_named("slurm", cannot="launched").shown(script)
    written = set(re.findall(r'^cat >"\$run/(.*?)"', script, re.M))
    assert {STARTER.name, METRICS.name} < written
    check_numbers(shown, script, written)
    assert re.findall(r'^cat >"\$run/(.*?)"', shown, re.M) == ["job.yaml", "packages.txt"]
    # Every line that is shown is one of the script, in its order.
    lines = iter(script.splitlines())
    assert all(line in lines for line in shown.splitlines() if not LEFT_OUT.match(line))
    assert "trl==1.16.0" in shown and shown.count("some text") == 2, "in the job file, and in the command"


@pytest.mark.parametrize("kind", KINDS)
def test_documents_for_kubernetes_differ_only_in_the_entries_of_the_files(kind: str) -> None:
    whole = of_kind(kind)
    shown = target_named("kubernetes", cannot="launched").shown(whole)
    before, after = list(yaml.safe_load_all(whole)), list(yaml.safe_load_all(shown))
    assert before[1:] == after[1:]
    gone = {name for name in before[0]["data"] if name not in after[0]["data"]}
    assert after[0]["data"].items() <= before[0]["data"].items()
    assert {STARTER.name, METRICS.name, RUN_FILES.name, PASSED_SIGNALS.name} < gone
    kept = {"job.yaml", "packages.txt"} | ({"entrypoint.sh", "prepare.sh"} if kind == "RayJob" else set())
    assert set(after[0]["data"]) == kept
    check_numbers(shown, whole, gone)


@pytest.mark.parametrize("target", ["local", "sagemaker"])
def test_a_target_that_sends_the_files_elsewhere_shows_all_of_its_document(target: str) -> None:
    assert target_named(target, cannot="launched").shown('{"a": 1}\n') == '{"a": 1}\n'


def test_a_script_without_such_files_is_shown_as_it_is() -> None:
    text = "#!/bin/bash\ncat >\"$run/job.yaml\" <<'END'\nname: small\nEND\n"
    assert target_named("slurm", cannot="launched").shown(text) == text


def test_full_without_a_dry_run_is_refused() -> None:
    ran = CliRunner().invoke(app, ["launch", "absent.yaml", "--full"])
    assert str(ran.exception).splitlines() == [
        "--full cannot be used without --dry-run",
        "    why: only a dry run prints what would be submitted",
        "    fix: add --dry-run, or leave --full out",
    ]
