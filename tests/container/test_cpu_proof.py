"""The proof of the image reports what happens, and names what a machine lacks.

A stand-in takes the place of Docker, because the real build fetches 3 GB. `make image-proof-cpu` is the real one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from container import cpu_proof
from delivery.content_hash import image_hash

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "container/cpu_proof.py"
STEPS = ["build", "user", "verify_image.py", "imports", "torch.compile", "training.prepare", "training.train"]


@dataclass(frozen=True)
class Proof:
    """What the script returned and printed, and what it called Docker with."""

    status: int
    out: str
    err: str
    calls: str


Prove = Callable[..., Proof]


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prove:
    """Run the script where `docker` is a shell script, or is not installed."""

    def run(docker: str | None, *words: str) -> Proof:
        calls, path = tmp_path / "calls", [str(tmp_path)]
        calls.write_text("")
        if docker is not None:
            (tmp_path / "docker").write_text(f'#!/bin/bash\necho "$*" | head -n 1 >>{calls}\n{docker}\n')
            (tmp_path / "docker").chmod(0o755)
            path += ["/bin", "/usr/bin"]
        monkeypatch.setenv("PATH", ":".join(path))
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--log", str(tmp_path / "log"), *words])
        status = cpu_proof.main()
        printed = capsys.readouterr()
        return Proof(status, printed.out, printed.err, calls.read_text())

    return run


def program(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of a step with this machine's Python."""
    command = [sys.executable, "-", *words]
    return subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800)


@pytest.mark.parametrize(
    ("docker", "words", "said"),
    [
        (None, (), "docker is not installed. Install Docker Engine"),
        ('[[ "$1" != info ]] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; }', (), "set DOCKER_HOST"),
        ('[[ "$1" != buildx ]] || { echo "unknown command" >&2; exit 1; }', (), "install the package docker-buildx"),
        ("exit 0", ("--authorities", "/absent.pem"), "--authorities /absent.pem: no such file"),
    ],
)
def test_it_says_what_the_machine_lacks_and_builds_nothing(
    prove: Prove, docker: str | None, words: tuple[str, ...], said: str
) -> None:
    done = prove(docker, *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert "buildx build" not in done.calls


def test_every_step_has_a_line_with_its_seconds_and_what_was_started_is_deleted(prove: Prove) -> None:
    done = prove("echo said; cat >/dev/null")
    assert done.status == 0, done.out + done.err
    lines = re.findall(r"^(\S+) +\d+\.\d s  ok ", done.out, re.MULTILINE)
    assert lines == STEPS
    assert re.search(r"^run .*--network none", done.calls, re.MULTILINE)
    assert "rm --force said\nimage rm --force trainway-image-proof:" in done.calls


def test_a_step_that_fails_is_named_and_the_others_still_run(prove: Prove) -> None:
    done = prove('cat >/dev/null; [[ "$*" != *torchrun* ]] || { echo "no gloo" >&2; exit 3; }; echo said')
    assert done.status == 1
    assert re.search(r"^training.train .* s  FAILED  status 3:\nno gloo$", done.out, re.MULTILINE), done.out
    assert len(re.findall(" s  ok ", done.out)) == len(STEPS) - 1
    assert "image rm --force" in done.calls


def test_a_build_that_fails_ends_the_proof(prove: Prove) -> None:
    done = prove('[[ "$1 $2" != "buildx build" ]] || { echo "no such base"; exit 1; }')
    assert done.status == 1
    assert re.search(r"^build .* s  FAILED  status 1:\nno such base$", done.out, re.MULTILINE), done.out
    assert "run --detach" not in done.calls


def test_the_steps_are_in_the_order_that_a_job_needs() -> None:
    assert ["build", *cpu_proof.STEPS] == STEPS


# Without the job's own modules, which take a while.
IMPORTS = cpu_proof.IMPORTS.replace('training.__path__, "training."', '[], ""')


@pytest.mark.parametrize(
    ("pins", "status", "said"),
    [
        ([f"PyYAML=={yaml.__version__}"], 0, "1 packages, 2 modules"),
        (["absent==1"], 1, "absent is not installed"),
        (["PyYAML==0.1"], 1, "expected 0.1"),
    ],
)
def test_the_imports_name_a_package_that_differs_from_its_list(pins: list[str], status: int, said: str) -> None:
    assert IMPORTS != cpu_proof.IMPORTS
    done = program(f"PINS = {pins!r}\n{IMPORTS}")
    assert done.returncode == status and said in done.stdout + done.stderr, done.stderr


def test_the_imports_name_a_module_that_does_not_import(tmp_path: Path) -> None:
    package = tmp_path / "broken-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (package / "RECORD").write_text("broken.py,,\n")
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    done = program(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nPINS = ['broken==1']\n{IMPORTS}")
    assert done.returncode == 1
    assert "broken: import broken: ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("losses", "status", "said"),
    [
        ({1: 5.0, 40: 4.0}, 0, "loss 5.00 -> 4.00 in 40 steps"),
        ({1: 5.0, 40: 5.5}, 1, "the loss did not fall: 5.00, then 5.50"),
        ({1: 5.0, 12: 4.0}, 1, "the last step is 12, expected 40"),
    ],
)
def test_the_job_counts_only_if_it_ended_and_its_loss_fell(
    tmp_path: Path, losses: dict[int, float], status: int, said: str
) -> None:
    events = [{"event": "step", "step": step, "loss": loss} for step, loss in losses.items()]
    (tmp_path / "metrics.jsonl").write_text("\n".join(json.dumps(event) for event in events))
    done = program(cpu_proof.LOSSES, str(tmp_path), "40")
    assert done.returncode == status and said in done.stdout + done.stderr


def test_the_tag_is_that_of_the_image() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--tag"], cwd=ROOT, capture_output=True, text=True, check=True)
    arguments = cpu_proof.arguments_of(cpu_proof.Options())
    assert done.stdout.strip() == image_hash(ROOT, "image", arguments)
    assert arguments["VARIANT"] == "cpu" and arguments["UBUNTU_SNAPSHOT"]


def test_the_imports_are_those_of_every_list_of_the_variant() -> None:
    text = (ROOT / "container/Dockerfile").read_text(encoding="utf-8")
    # The lists of the stages that a CPU image without add-ons has.
    listed = text.partition("FROM listed AS packages-cpu")[0].partition(" AS network-cpu")[2]
    names = set(re.findall(r"container/requirements/(\S+?)\.txt", listed))
    assert names == {"pytorch-${PYTORCH_VERSION}", "build-tools", "training"}
    pins = cpu_proof.pins_of((ROOT / "container/requirements").glob("training.txt"))
    assert any(pin.startswith("boto3==") for pin in pins)


def test_make_runs_the_same_script() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "image-proof-cpu"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert str(SCRIPT.relative_to(ROOT)) in done.stdout
