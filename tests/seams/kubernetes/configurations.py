"""Reads configurations that are texts in a ConfigMap: Kueue's, and that of the GPU operator's MIG manager."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tests.manifests.platforms import CATALOGUE
from tests.seams.kubernetes.rendered import every_platform
from tests.seams.kubernetes.structural import refusals
from tests.synthesis import ROOT
from trainway.manifests import cluster_manifests

DATA = Path(__file__).with_name("configurations.yaml")


def configuration_refusals(program: str, content: Any) -> list[str]:
    """Return why the program, `kueue` or `mig manager`, refuses its configuration."""
    return refusals(Draft202012Validator(_schemas()[program]["schema"]), content)


def kueue_configuration() -> dict[str, Any]:
    """Return what Kueue is started with."""
    values = yaml.safe_load((ROOT / "delivery" / "values" / "kueue.yaml").read_text(encoding="utf-8"))
    content: dict[str, Any] = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    return content


def mig_configuration(platform: str) -> dict[str, Any] | None:
    """Return the MIG manager's configuration on a platform; None without the GPU operator."""
    values = cluster_manifests(every_platform()[platform], CATALOGUE).get("values/gpu-operator")
    if values is None:
        return None
    config = values["migManager"]["config"]
    content: dict[str, Any] = yaml.safe_load(config["data"]["config.yaml"])
    assert config["default"] in content["mig-configs"], "the default is none of the configurations"
    return content


@cache
def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return schemas
