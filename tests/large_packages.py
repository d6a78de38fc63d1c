"""Large packages that this process imported while it collected the tests, and the node that imported each first."""

from __future__ import annotations

import sys

import pytest

# Each takes some tenths of a second of a processor, or seconds, in each process that collects tests. A test, a fixture,
# or a helper that needs one imports it when it runs. The import of aws_cdk also starts a process of Node.
LARGE = frozenset(
    {
        *("aws_cdk", "cdk_nag", "cel", "cfnlint", "check_jsonschema", "cryptography", "grimp", "jsii"),
        *("kubeflow_trainer_api", "kubernetes_validate", "markdown_it", "mlflow", "moto", "prometheus_client"),
        *("pyarrow", "safetensors", "spdx_tools", "tensorboard", "torch", "torchao", "transformers", "wandb"),
    }
)
IMPORTED = pytest.StashKey[dict[str, str]]()


class LargePackages:
    """Notes the imports for tests/test_collection.py. A worker of `make test` collects all tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.imported = config.stash[IMPORTED] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what was imported since the last node."""
        for name in LARGE & sys.modules.keys() - self.imported.keys():
            self.imported[name] = report.nodeid
