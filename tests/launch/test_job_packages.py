"""A job's packages are locked for the Python that runs it, installed once, and come before those of that Python."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy
import pytest

from tests.command_line import Completed, run_trainway
from tests.container import stand_ins
from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from trainway.delivery.resolution import found_uv
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.sweep import sweep
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import INSTALLER, LockedPackages
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import SageMakerOptions, render_request
from trainway.launch.slurm import SlurmOptions, render_script
from trainway.launch.starting import job_packages
from trainway.launch.starting.job_packages import lock_of, python_here, python_of_image
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load_platform

ROOT = Path(__file__).resolve().parents[2]
MODULE = "import numpy\ndef main():\n    print('hello with numpy', numpy.__version__, flush=True)\n"
SCRIPT = "[console_scripts]\nhello = greeting:main\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index with a package that requires NumPy, and with newer releases of what is here already."""
    site = tmp_path_factory.mktemp("site")
    simple = site / "simple"
    greeting = {"greeting.py": MODULE, "greeting-1.0.dist-info/entry_points.txt": SCRIPT}
    stand_ins.wheel(simple, "greeting", "1.0", greeting, "Requires-Dist: numpy\nRequires-Dist: torch\n")
    stand_ins.wheel(simple, "older", "1.0", {}, "Requires-Dist: numpy<2\n")
    for release in (numpy.__version__, "99.0", "1.26.4"):
        stand_ins.wheel(simple, "numpy", release, {"numpy.py": "raise ImportError('another NumPy')"})
    stand_ins.wheel(simple, "torch", version("torch").partition("+")[0], {}, "Requires-Dist: nvidia-cublas\n")
    for name, release in python_of_image(*atlas()).packages.items():
        if name in ("torch", "triton") or (name == "numpy" and release != numpy.__version__):
            stand_ins.wheel(simple, name, release, {})
    with stand_ins.served(site) as url, found_uv() as uv, pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_DEFAULT_INDEX", f"{url}/simple")
        patch.setenv("PIP_INDEX_URL", f"{url}/simple")
        patch.setenv("PATH", str(uv.parent), prepend=os.pathsep)
        patch.delenv("PIP_FIND_LINKS", raising=False)
        yield simple


def atlas() -> tuple[Any, Path]:
    file = ROOT / "examples/eks-p5.yaml"
    return load_platform(file), file


def launched(directory: Path, *arguments: str, **environment: str) -> Completed:
    told = {**os.environ, "XDG_CACHE_HOME": str(directory / "cache"), **environment}
    return run_trainway(*arguments, directory=directory, environment=told)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_a_job_on_this_machine_has_its_packages_and_the_numpy_that_was_here(tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, command=["hello"], packages=["greeting==1.0"])
    done = launched(tmp_path, "launch", str(job), "--run=runs/first")
    assert done.returncode == 0, done.stderr
    assert f"hello with numpy {numpy.__version__}" in done.stdout
    lock = (tmp_path / "foreign.local.packages.lock").read_text()
    assert "greeting==1.0 \\\n    --hash=sha256:" in lock
    assert "\nnumpy==" not in lock and "\ntorch==" not in lock and "nvidia" not in lock
    # The same packages are not installed again, and the attempt after this one has them without the job file's lock.
    (tmp_path / "foreign.local.packages.lock").unlink()
    again = launched(tmp_path, "resume", "runs/first", UV_DEFAULT_INDEX="http://localhost:9", PIP_INDEX_URL="x")
    assert again.returncode == 0 and "hello with numpy" in again.stdout, again.stderr
    assert "pip installs" not in again.stderr


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("packages", "why"),
    [
        (["older"], "all versions of older depend on numpy<2"),
        (["absent==3"], "absent was not found"),
        ("absent.txt", "No such file or directory"),
    ],
)
@pytest.mark.exhaustive
def test_packages_that_do_not_fit_are_refused_before_the_launch(packages: Any, why: str, tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, packages=packages)
    done = launched(tmp_path, "launch", str(job), "--run=runs/bad")
    assert done.returncode == 2 and why in done.stderr and "fix: " in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("index")
def test_a_lock_is_made_for_one_image_and_used_until_the_packages_change(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# what it needs\ngreeting  # says hello\n")
    requested = load_program(write_foreign_job(tmp_path, packages="requirements.txt")).packages
    assert requested is not None
    python = python_of_image(*atlas())
    lock = lock_of(requested, python)
    file = tmp_path / f"foreign.{python.name}.packages.lock"
    assert file.read_text() == lock.text and lock.is_for_image and not lock.is_empty
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_packages, "found_uv", lambda: pytest.fail("the lock is there"))
        assert lock_of(requested, python) == lock
    another = dataclasses.replace(python, packages={**python.packages, "greeting": "1.0"})
    assert lock_of(requested, another).is_empty, "the image has it already"
    swept = sweep(
        write_foreign_job(tmp_path, packages=["greeting"]).read_text(), ["run.stop.grace=1,2"], None, tmp_path
    )
    assert {point.program.packages.job for point in swept if point.program.packages} == {"foreign"}


def test_a_list_with_checksums_is_the_lock(tmp_path: Path) -> None:
    text = f"greeting==1.0 --hash=sha256:{'0' * 64}\n"
    (tmp_path / "lock.txt").write_text(text)
    requested = load_program(write_foreign_job(tmp_path, packages="lock.txt")).packages
    assert requested is not None
    assert lock_of(requested, python_here()) == LockedPackages(text)


def test_the_packages_of_an_unknown_image_are_not_guessed() -> None:
    platform, file = atlas()
    for key, value in {"uri": "x@sha256:y", "dockerfile": "image"}.items():
        changed = platform.model_copy(update={"image": platform.image.model_copy(update={key: value})})
        with pytest.raises(UsageError, match=f"has image.{key}, and the packages of that image are not known"):
            python_of_image(changed, file)


def test_each_target_sends_the_lock_and_names_the_directory_that_nodes_share(tmp_path: Path, hand_off: HandOff) -> None:
    lock = LockedPackages(f"greeting==1.0 --hash=sha256:{'0' * 64}\n", is_for_image=True)
    program = dataclasses.replace(load_program(write_foreign_job(tmp_path, packages=["greeting"])), lock=lock)

    def asked(there: HandOff) -> Request:
        own = dataclasses.replace(program, team=there.teams[0] if there.teams else None)
        return Request(own, "first", there, IMAGE, allocate(own, there, CATALOGUE))

    files, _, job = render_documents(asked(hand_off_of(platform_named("kueue"))), CATALOGUE, KubernetesOptions())
    assert files["data"]["packages.txt"] == lock.text and INSTALLER.name in files["data"]
    assert "--packages=/etc/trainway/packages.txt" in job["spec"]["trainer"]["command"]
    assert {"name": "TRAINWAY_PACKAGES", "value": "/fsx/packages"} in job["spec"]["trainer"]["env"]
    there: tuple[tuple[Literal["fsx", "s3"], str | None], ...] = (
        ("fsx", "/opt/ml/input/data/fsx/packages"),
        ("s3", None),
    )
    for data, shared in there:
        rendered = render_request(asked(on_sagemaker(hand_off)), CATALOGUE, SageMakerOptions(data=data))
        arguments = rendered["AlgorithmSpecification"]["ContainerArguments"]
        assert "--packages=/opt/ml/input/data/job/packages.txt" in arguments
        assert rendered["Environment"].get("TRAINWAY_PACKAGES") == shared
    slurm = asked(on_slurm(hand_off))
    assert "--packages=/fsx/runs/first/packages.txt" in render_script(slurm, CATALOGUE)
    with pytest.raises(UsageError, match=r"the lock of run\.packages is for the training image"):
        render_script(slurm, CATALOGUE, SlurmOptions(environment=PurePosixPath(tmp_path)))
    with pytest.raises(ValueError, match="are not locked"):
        dataclasses.replace(program, lock=None).node_command(tmp_path, None)


def install(lock: Path, shared: Path, here: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(INSTALLER), str(lock), f"--shared={shared}", f"--here={here}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_one_of_two_nodes_installs_and_the_other_unpacks(index: Path, tmp_path: Path) -> None:
    lock = tmp_path / "packages.txt"
    lock.write_text(f"greeting==1.0 --hash=sha256:{stand_ins.sha256(next(index.glob('greeting/*.whl')))}\n")
    done: list[subprocess.CompletedProcess[str]] = []
    nodes = [
        threading.Thread(target=lambda node=node: done.append(install(lock, tmp_path / "fsx", tmp_path / node)))
        for node in ("n0", "n1")
    ]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
    assert [each.returncode for each in done] == [0, 0], done
    assert sorted("pip installs" in each.stderr for each in done) == [False, True], done
    for each in done:
        found = Path(each.stdout.strip())
        assert (found / "greeting.py").is_file() and os.access(found / "bin/hello", os.X_OK)
    own = tmp_path / "fsx" / str(os.getuid())
    assert own.stat().st_mode & 0o777 == 0o700 and len(list(own.glob("*.tar"))) == 1


@pytest.mark.usefixtures("index")
def test_a_file_with_another_checksum_is_not_installed_and_not_tried_again(tmp_path: Path) -> None:
    lock = tmp_path / "packages.txt"
    for checksum, status, why in (
        ("greeting==1.0", NOT_FOUND, "does not have the checksum of the lock"),
        ("greeting==2.0", NOT_FOUND, "No matching distribution found for greeting==2.0"),
    ):
        lock.write_text(f"{checksum} --hash=sha256:{'0' * 64}\n")
        done = install(lock, tmp_path / "fsx", tmp_path / "here")
        assert done.returncode == status and why in done.stdout and "Traceback" not in done.stderr, done
    assert not list((tmp_path / "fsx").rglob("*.tar")) and not list((tmp_path / "here").iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        patch.setenv("PIP_RETRIES", "1")
        done = install(lock, tmp_path / "fsx", tmp_path / "here")
        assert done.returncode == 1 and "the package index cannot be reached" in done.stdout, done
