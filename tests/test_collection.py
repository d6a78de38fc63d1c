"""The collection of the tests imports no large package, and needs no plugin of pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each takes some tenths of a second of a processor, or seconds, in each process that collects tests. A test, a fixture,
# or a helper that needs one imports it when it runs. The import of aws_cdk also starts a process of Node.
LARGE = {
    *("aws_cdk", "cdk_nag", "cel", "cfnlint", "check_jsonschema", "cryptography", "grimp", "jsii"),
    *("kubeflow_trainer_api", "kubernetes_validate", "markdown_it", "mlflow", "moto", "prometheus_client", "pyarrow"),
    *("safetensors", "spdx_tools", "tensorboard", "torch", "torchao", "transformers", "wandb"),
}
# Collects tests, and prints who imported which large package first, how many tests there are, and the CPU seconds.
COLLECT = f"""
import json, sys, time
import pytest

class Report:
    imported = {{}}
    tests = 0

    def pytest_collectreport(self, report):
        for name in {sorted(LARGE)}:
            if name in sys.modules:
                self.imported.setdefault(name, report.nodeid)

    def pytest_collection_finish(self, session):
        self.tests = len(session.items)

report = Report()
status = pytest.main(sys.argv[1:], plugins=[report])
print(json.dumps({{"imported": report.imported, "tests": report.tests, "seconds": time.process_time()}}))
sys.exit(status)
"""


def test_the_collection_imports_no_large_package() -> None:
    arguments = ("--collect-only", "-qq", "-p", "no:cacheprovider")
    done = subprocess.run([sys.executable, "-c", COLLECT, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{found['tests']} tests are collected in {found['seconds']:.1f} s of a processor")
    assert found["imported"] == {}, "import these in the tests, the fixtures, or the helpers that use them"
    assert found["tests"] > 8000


@pytest.mark.parametrize("options", [(), ("-p", "no:xdist")], ids=["as usual", "without pytest-xdist"])
def test_a_file_is_collected_from_another_folder(options: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *options, __file__]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_collection.py: 3" in done.stdout
