"""`python -m docs.generators.reference.pages` rewrites docs/reference from the code's models, commands, and facts."""

from __future__ import annotations

from docs.generators import ROOT
from docs.generators.reference.commands import command_text, commands
from docs.generators.reference.facts import failures, image_rules, metrics
from docs.generators.reference.keys import parts_of, tables
from docs.generators.reference.orchestrators import orchestrators_of
from trainway.launch.job_file.programs import job_schema
from trainway.launch.target.known import all_targets
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

NEWLINE = "\n"
FOLDER = ROOT / "docs" / "reference"
_GENERATED = "<!-- Written by `python -m docs.generators.reference.pages`. -->"
# Targets of this project. An installed package can add others, which do not belong on the page.
_TARGETS = ("local", "slurm", "kubernetes", "sagemaker")


def platform_page() -> str:
    """Return the page with every key of the platform file."""
    schema = Platform.model_json_schema()
    parts = parts_of(schema, schema["$defs"])
    headings = {part.name: f"`{part.path}`" for part in parts} | {"": "The file"}
    body = tables(parts, schema["$defs"], headings, ("Only with", orchestrators_of))
    return f"""\
# Keys of the platform file

{_GENERATED}

`trainway schema` prints the same keys as a JSON Schema, with which editors complete and check the file.
`trainway check` also checks [rules](../rules.md) that a schema cannot express. If a key has no default, its meaning
says what happens without the key. `Only with` names the orchestrators that support a key, unless all three do.

{body}"""


def job_page() -> str:
    """Return the page with every key of both forms of a job file."""
    schema = job_schema()
    definitions = schema["$defs"]
    headings: dict[str, str] = {}
    bodies = []
    for title, form, of in (
        ("A training job", "Job", ""),
        ("A program of your own", "RunFile", " of a program of your own"),
    ):
        # A section of both forms, such as that of a target, is described with the first.
        parts = [
            each for each in parts_of(definitions[form], definitions) if each.name not in headings or not each.name
        ]
        taken = set(headings.values())
        for part in parts:
            heading = f"`{part.path}`"
            headings[part.name] = f"{heading}{of}" if heading in taken else heading
        headings[""] = title
        bodies.append(tables(parts, definitions, headings))
    rows = "\n".join(
        f"| `{each.name}` | {_platforms(each.orchestrators)} |" for each in all_targets() if _own(each.name)
    )
    return f"""\
# Keys of the job file

{_GENERATED}

A job file has one of two forms: [a training job](#a-training-job) of Trainway, or [a program of your
own](#a-program-of-your-own), which has the key `run`. `trainway schema job` prints both forms as a JSON Schema. If a
key has no default, its meaning says what happens without the key.

A section that is named after a target has options for this target only. Other targets ignore it.

| Target | Platforms |
|---|---|
{rows}

{NEWLINE.join(bodies)}"""


def _own(target: str) -> bool:
    return target in _TARGETS


def _platforms(orchestrators: tuple[Orchestrator, ...]) -> str:
    return ", ".join(f"`{each}`" for each in orchestrators) or "none: it runs on this machine"


def commands_page() -> str:
    """Return the page with every command and its options."""
    body = "\n".join(command_text(name, command) for name, command in commands())
    return f"""\
# Commands

{_GENERATED}

[The command line](../command-line.md) describes what all commands have in common. Every command has `--help`.

{body}"""


def failures_page() -> str:
    """Return the page with the failures that `trainway explain` knows."""
    return f"""\
# Failures that `trainway explain` knows

{_GENERATED}

[When a job fails](../when-a-job-fails.md) describes the command. It also reads NCCL's timeouts, torchrun's summary,
the numbers of Lustre's errors, and the reasons of Kubernetes, Slurm, and SageMaker. Words in capitals stand for values
from a log.

{failures()}"""


def image_rules_page() -> str:
    """Return the page with the rules of `trainway image doctor`."""
    return f"""\
# Findings of `trainway image doctor`

{_GENERATED}

[Your image](../your-image.md#check-any-image) describes the command. A rule of AWS is one of
[efa-nccl-doctor 1.0](https://github.com/awslabs/awsome-distributed-ai/pull/1235) (read 2026-11-28), which reads the
text of a Dockerfile. It finds the same. Its advice for `NCCL003` is to remove HPC-X, which breaks PyTorch in NVIDIA's
images of 2026.

{image_rules()}"""


def metrics_page() -> str:
    """Return the page with the metrics that dashboards and alarms read."""
    return f"""\
# Metrics

{_GENERATED}

These are the metrics that the dashboards and [alarms](../alarms.md) of a platform read. [Watching a
job](../watching.md) and [Metrics of nodes](../node-metrics.md) describe where they come from.

{metrics()}"""


PAGES = {
    "platform-file.md": platform_page,
    "job-file.md": job_page,
    "commands.md": commands_page,
    "failures.md": failures_page,
    "image-doctor.md": image_rules_page,
    "metrics.md": metrics_page,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
