"""docs/launch-kubernetes.md says what is so."""

from __future__ import annotations

import re

from tests.launch.kubernetes.platforms import ROOT
from training.config import LifeCycle
from trainway.launch.job_file.training_program import PATTERNS, training_command
from trainway.launch.kubernetes import KINDS, KubernetesOptions
from trainway.launch.kubernetes.hyperpod_pytorch_job import _COUNTED_SECONDS
from trainway.launch.kubernetes.log_rules import log_rules
from trainway.launch.kubernetes.node_program import _SECONDS_OF_SUCCESS
from trainway.launch.kubernetes.options import _KEEP_HOURS, HANG_SECONDS
from trainway.launch.kubernetes.process import JOIN_SECONDS, STOP_SECONDS

PAGE = (ROOT / "docs" / "launch-kubernetes.md").read_text(encoding="utf-8")


def test_it_has_every_kind_and_every_option() -> None:
    kinds, options = PAGE.split("## Options")
    options, _ = options.split("## Restarts")
    assert re.findall(r"^\| `(\w+)`", kinds, re.MULTILINE) == list(KINDS)
    named = {each.replace("-", "_") for each in re.findall(r"`--([a-z-]+) ", options)}
    assert named | {"kind"} == set(KubernetesOptions.__dataclass_fields__)


def test_its_times_and_numbers_are_the_codes() -> None:
    divergence = log_rules(PATTERNS, KubernetesOptions(loss_above=11))[1]
    said = {
        "have five minutes": STOP_SECONDS == 5 * 60,
        "wait an hour": JOIN_SECONDS == 60 * 60,
        f"for 600 seconds. Default: {HANG_SECONDS} |": True,
        "| `process_restarts` | 3 |": LifeCycle().process_restarts == 3,
        "| `restarts` | 10 |": LifeCycle().restarts == 10,
        "| `keep_hours` | 168 |": _KEEP_HOURS == 168,
        "within six hours": _COUNTED_SECONDS == 6 * 3600,
        f"failure {_SECONDS_OF_SUCCESS} seconds late": True,
        "five consecutive steps": divergence["metricEvaluationDataPoints"] == 5,
        f"`{' '.join(training_command())}`": True,
    }
    assert all(words in PAGE for words in said)
    assert all(said.values())
