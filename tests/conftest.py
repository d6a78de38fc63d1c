"""What every test runs with: this checkout's Node, and no AWS account within reach."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from botocore.validate import ParamValidator

from emulator import moto_repairs, process
from tests import hypothesis_profiles, selection
from tests.compiled_once import CompiledOnce
from tests.durations import Measurement, Summary
from tests.emulator_forks import start_forked
from tests.large_packages import LargePackages
from tests.service_model import strict_validate

if TYPE_CHECKING:
    from tests.together import TogetherScheduling

# botocore leaves maxima, patterns, and enumerations to the service, which the tests do not have.
ParamValidator.validate = strict_validate  # type: ignore[method-assign]
# Tests make a session each, and a session reads a service's model, of up to 3 MB, for its first client.
moto_repairs.read_service_models_once()
# Every emulator of a worker is a fork of one process.
process.start_server = start_forked
# jsonschema would compile 38 grammars for a second in each process, to check IRIs, which no schema of the tests has.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
# What Python and Node compile, they keep for the processes that the tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("NODE_COMPILE_CACHE", str(Path(__file__).parents[1] / "build" / "node-cache"))
NODE = Path(sys.executable).with_name("node")
if NODE.exists():
    os.environ["JSII_NODE"] = str(NODE)
# The CDK's validator takes most of a synthesis; the tests that check templates switch it on for themselves.
os.environ["CDK_VALIDATION"] = "false"
# Garbage collection took 8 % of the CPU time of 499 tests. A larger threshold runs it 70 times less often.
gc.set_threshold(50_000, 20, 20)
# An object of the test process can own threads, which a fork does not have. A fork that destroyed it could crash.
os.register_at_fork(after_in_child=gc.freeze)
# Without this, an idle thread of OpenMP spins for 0.1 s or more on a processor that another test could use.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A command of kubectl, helm, or promtool ends before Go's collector of garbage is worth its time. With one thread that
# collects ten times less often, it takes half the CPU time.
os.environ.setdefault("GOMAXPROCS", "1")
os.environ.setdefault("GOGC", "1000")
hypothesis_profiles.register()
# Platform and job files have no anchors, and tests write the same list into several places.
yaml.SafeDumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ.update(
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE="/nonexistent",
    AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select tests."""
    selection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Measure the tests of this process. The process that collects the reports prints the figures of all."""
    config.pluginmanager.register(measurement := Measurement())
    config.pluginmanager.register(LargePackages(config))
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(CompiledOnce())
    else:
        selection.check_options(config)
        config.pluginmanager.register(Summary(measurement))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a change without exhaustive tests pass `make test-all CHANGED=REV`."""
    if session.config.getoption("--changed") and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files so that the workers end at about the same time, and deselect the tests of other shards."""
    selection.select(config, items)


# The hooks of pytest-xdist are optional, and import its classes when they run, so that `-p no:xdist` works.
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers of `--numprocesses auto` and `--numprocesses logical`."""
    from tests.together import workers

    return workers(len(os.sched_getaffinity(0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TogetherScheduling | None:
    """Give files that share an expensive fixture to one worker."""
    from tests.together import TogetherScheduling

    return TogetherScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In continuous integration a test that is skipped has failed: there, everything is installed."""
    report = yield
    if report.skipped and "CI" in os.environ and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which no test may be here: {report.longrepr}"
    return report
