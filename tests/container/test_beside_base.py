"""The build's script installs the job's packages beside those of a base image, with real pip and real Pythons."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.container import stand_ins

ROOT = Path(__file__).resolve().parents[2]
TORCH = {"torch/__init__.py": "", "torch/distributed/__init__.py": "", "torch/distributed/run.py": ""}
MAIN = "import sys\n\n\ndef main():\n    import tool\n    print(sys.executable, tool.__name__)\n"


@dataclass(frozen=True)
class Base:
    """A Python of a base image, with PyTorch 2.9 and numpy 1.26, and an index that has newer ones."""

    root: Path
    environment: dict[str, str]

    def install(self, *requirements: str) -> subprocess.CompletedProcess[str]:
        """Run the build's script for a job with the requirements."""
        listed = ", ".join(f'"{each}"' for each in requirements)
        project = self.root / "pyproject.toml"
        project.write_text(f"[project.optional-dependencies]\ntraining = [{listed}]\n", encoding="utf-8")
        command = ["bash", str(ROOT / "container/beside_base.sh"), str(project), str(self.root / "job")]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True)

    def says(self, code: str) -> str:
        """Return what the job's Python prints."""
        return subprocess.run(
            [self.root / "job/bin/python", "-c", code], capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    site = tmp_path_factory.mktemp("site")
    for version in ("1.26.4", "2.3.0"):
        stand_ins.wheel(site / "simple", "numpy", version, {"numpy/__init__.py": ""})
    stand_ins.wheel(site / "simple", "torch", "2.9.0", {**TORCH, "torch/distributed/run.py": MAIN})
    stand_ins.wheel(site / "simple", "tool", "1.0", {"tool.py": ""})
    with stand_ins.served(site) as url:
        yield f"{url}/simple"


@pytest.fixture
def base(tmp_path: Path, index: str) -> Base:
    """A base whose python3 is one of a virtual environment, as in images with /opt/venv."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "base"], check=True)
    path = f"{tmp_path / 'base/bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    environment = {"PATH": path, "HOME": str(tmp_path), "PIP_INDEX_URL": index, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(["pip", "install", "--quiet", "torch==2.9.0", "numpy==1.26.4"], env=environment, check=True)
    return Base(tmp_path, environment)


@pytest.mark.exhaustive
def test_the_bases_packages_stay_and_the_others_are_beside_them(base: Base) -> None:
    done = base.install("numpy", "tool")
    assert done.returncode == 0, done.stdout + done.stderr
    there = base.says(
        "import numpy, torch, tool; print(numpy.__file__, torch.__file__, tool.__file__, sep='\\n')"
    ).split()
    in_base, job = str(base.root / "base"), str(base.root / "job")
    assert [path.startswith(in_base) for path in there] == [True, True, False]
    assert there[2].startswith(job)
    version = base.says("import importlib.metadata; print(importlib.metadata.version('numpy'))")
    assert version == "1.26.4\n", "the index has a newer one"


@pytest.mark.exhaustive
def test_torchrun_starts_workers_that_find_the_jobs_packages(base: Base) -> None:
    base.install("tool")
    done = subprocess.run([base.root / "job/bin/torchrun"], capture_output=True, text=True)
    assert done.stdout == f"{base.root / 'job/bin/python'} tool\n", done.stderr


@pytest.mark.exhaustive
def test_a_job_that_requires_another_version_than_the_bases_ends_the_build_with_the_key(base: Base) -> None:
    done = base.install("numpy>=2")
    assert done.returncode == 1
    assert "image.base_packages: what the job requires does not go with the Python packages of the base" in done.stderr
    assert "numpy>=2" in done.stderr + done.stdout


@pytest.mark.exhaustive
def test_a_base_without_pytorch_ends_the_build_with_the_key(base: Base) -> None:
    subprocess.run(["pip", "uninstall", "--quiet", "--yes", "torch"], env=base.environment, check=True)
    done = base.install("tool")
    assert done.returncode == 1
    assert done.stderr.startswith("image.base_packages: the base image has no PyTorch that its python3")
    assert not (base.root / "job").exists()
