"""Validate the alert rules and the Alertmanager definition in the Amazon Managed Service for Prometheus workspace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus import program
from tests.seams.resolved import deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import some_and_all_platforms

Properties = dict[str, Any]
SHARED = "hyperpod-eks-shared"


def problems(rules: str, definition: str, directory: Path) -> Sequence[str]:
    """Return the errors that promtool reports for the rules and amtool reports for the definition."""
    told = yaml.safe_load(definition)
    for name, text in told.get("template_files", {}).items():
        (directory / name).write_text(text, encoding="utf-8")
    (directory / "alertmanager.yaml").write_text(told["alertmanager_config"], encoding="utf-8")
    (directory / "rules.yaml").write_text(rules, encoding="utf-8")
    commands = (
        (program("promtool"), "check", "rules", "--lint-fatal", str(directory / "rules.yaml")),
        (program("amtool"), "check-config", str(directory / "alertmanager.yaml")),
    )
    done = [subprocess.run(command, capture_output=True, text=True, check=False) for command in commands]
    return [each.stdout + each.stderr for each in done if each.returncode != 0]


def workspaces(names: Iterable[str]) -> list[tuple[Properties, Properties]]:
    """Return the properties of each RuleGroupsNamespace and of its Workspace."""
    return [
        (rules, workspace)
        for platform in deployed(names).values()
        for rules in platform.of_type("AWS::APS::RuleGroupsNamespace").values()
        for workspace in platform.of_type("AWS::APS::Workspace").values()
    ]


@pytest.mark.parametrize("names", some_and_all_platforms())
def test_prometheus_and_alertmanager_take_the_alarms_of_every_workspace(names: tuple[str, ...], tmp_path: Path) -> None:
    found = workspaces(names)
    assert found
    for rules, workspace in found:
        assert problems(rules["Data"], workspace["AlertManagerDefinition"], tmp_path) == []


def unchanged(_: Any) -> None:
    """Leave a document as it is."""


def planted(
    error: str, *, rules: Callable[[Any], Any] = unchanged, configuration: Callable[[Any], Any] = unchanged
) -> Planted:
    """Plant an error in the parsed rules, or in the parsed configuration of Alertmanager."""

    def read(change: bool, directory: Path) -> Sequence[str]:
        platform = deployed_of(SHARED)
        (namespace,) = platform.of_type("AWS::APS::RuleGroupsNamespace").values()
        (workspace,) = platform.of_type("AWS::APS::Workspace").values()
        document, definition = yaml.safe_load(namespace["Data"]), yaml.safe_load(workspace["AlertManagerDefinition"])
        told = yaml.safe_load(definition["alertmanager_config"])
        if change:
            rules(document["groups"][0]["rules"])
            configuration(told)
        definition["alertmanager_config"] = yaml.safe_dump(told)
        return problems(yaml.safe_dump(document), yaml.safe_dump(definition), directory)

    return Planted(error, sound=partial(read, False), broken=partial(read, True))


SEAMS = (
    Seam(
        artifact="Alarms of the workspace of metrics, and whom they tell",
        rendered_by="trainway/monitoring",
        reader="promtool and amtool, of Prometheus and Alertmanager. `tests/monitoring` fires every alarm",
        instead="The workspace runs both only in AWS.",
        planted=(
            planted("a bracket of an expression is missing", rules=lambda all: all[0].update(expr="max by (node (up)")),
            planted("an alarm waits for a time without a unit", rules=lambda all: all[0].update({"for": "five"})),
            planted("an alarm is there twice", rules=lambda all: all.append(all[0])),
            planted("no receiver has the route's name", configuration=lambda it: it["route"].update(receiver="nobody")),
            planted("a key is misspelled", configuration=lambda it: it["route"].update(group_wat="30s")),
        ),
    ),
)
