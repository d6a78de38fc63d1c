"""Failures that `trainway explain` knows, rules of `trainway image doctor`, and metrics, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from docs.generators.reference.keys import cell
from trainway.explain.rules import RULES, FailureRule, Level
from trainway.image_doctor.rules import load_rules as image_doctor_rules
from trainway.spec.facts.files import read_facts
from trainway.spec.facts.metrics import load_emitters
from trainway.spec.facts.xids import load_xids
from trainway.spec.sections.orchestrator import Orchestrator

TOPICS = {
    "gpu": "GPUs",
    "hub": "Hugging Face",
    "job": "Programs and the training job",
    "kubernetes": "Kubernetes",
    "network": "The network",
    "sagemaker": "SageMaker",
    "slurm": "Slurm",
    "storage": "Storage",
}


def failures() -> str:
    """Return a table of the rules of each topic, without rules of consequences, and a table of the Xid errors."""
    parts = []
    for file in sorted(RULES.glob("*.yaml")):
        rules = [FailureRule.model_validate(each) for each in read_facts(file)]
        causes = [each for each in rules if each.level is not Level.CONSEQUENCE]
        if causes:
            parts.append(f"## {TOPICS.get(file.stem, file.stem)}\n\n" + _table("Failure", map(_row, causes)))
    xids = ((f"Xid {number}", each.meaning, each.remedy) for number, each in load_xids().items())
    known = (each for each in xids if each[2])
    parts.append("## Xid errors of NVIDIA's driver\n\n" + _table("Number", known))
    return "\n".join(parts)


def image_rules() -> str:
    """Return a table of the rules of `trainway image doctor`."""
    lines = ["| Finding | Severity | Rule of AWS | Why | Fix |", "|---|---|---|---|---|"]
    for code, rule in image_doctor_rules().items():
        lines.append(f"| `{code}` | {rule.severity} | {rule.aws or ''} | {cell(rule.why)} | {cell(rule.fix)} |")
    return "\n".join([*lines, ""])


def _row(rule: FailureRule) -> tuple[str, str, str]:
    source = rule.source
    link = f" ([source]({source}))" if source.startswith("https://") and " " not in source else ""
    return f"`{rule.name}`", _sentence(rule.cause) + link, _sentence(rule.remedy)


def _sentence(template: str) -> str:
    """Return the sentence of a template with its fields in capitals, and without its optional parts."""
    always = re.sub(r"\[[^\]]*\{[^\]]*\]", "", template)
    return re.sub(r"\{(\w+)\}", lambda found: "a rank" if found[1] == "who" else found[1].upper(), always)


def _table(title: str, rows: Iterable[tuple[str, str, str]]) -> str:
    lines = [f"| {title} | Cause | Fix |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {cell(cause)} | {cell(fix)} |" for name, cause, fix in rows), ""])


def metrics() -> str:
    """Return a table of the metrics of each emitter."""
    return "\n".join(_emitters())


def _emitters() -> Iterator[str]:
    for each in load_emitters().values():
        where = f"CloudWatch, namespace `{each.namespace}`" if each.namespace else each.store.capitalize()
        sources = ", ".join(f"[{source.title}]({source.url})" for source in each.sources)
        yield f"## {each.what}\n\n{where}, with {_names(each.under)}. Source: {sources}.\n"
        yield "| Metric | Unit | Kind or statistics | Dimensions or labels | Orchestrators |\n|---|---|---|---|---|"
        for name, metric in each.metrics.items():
            kind = metric.kind or ", ".join(metric.statistics)
            under = _names(metric.under) if metric.under else ""
            labels = metric.dimensions or (*each.labels, *each.labels_of_pods, *metric.labels)
            yield f"| `{name}` | {cell(metric.unit)} | {kind} | {', '.join(labels)} | {under} |"
        yield ""


def _names(under: Iterable[str]) -> str:
    names = list(under)
    return "every orchestrator" if len(names) == len(Orchestrator) else ", ".join(f"`{name}`" for name in names)
