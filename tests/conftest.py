"""What every test runs with: this checkout's Node, and no AWS account within reach."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from botocore.validate import ParamValidator

from tests import hypothesis_profiles
from tests.durations import Durations
from tests.longest_first import longest_first
from tests.service_model import strict_validate

# botocore leaves maxima, patterns, and enumerations to the service, which the tests do not have.
ParamValidator.validate = strict_validate  # type: ignore[method-assign]
NODE = Path(sys.executable).with_name("node")
if NODE.exists():
    os.environ["JSII_NODE"] = str(NODE)
# The CDK's validator takes most of a synthesis; the tests that check templates switch it on for themselves.
os.environ["CDK_VALIDATION"] = "false"
hypothesis_profiles.register()
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ.update(
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE="/nonexistent",
    AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the durations in the process that collects the reports of all workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files so that the workers end at about the same time."""
    longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In continuous integration a test that is skipped has failed: there, everything is installed."""
    report = yield
    if report.skipped and "CI" in os.environ and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which no test may be here: {report.longrepr}"
    return report
