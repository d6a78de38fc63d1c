"""The job file of any program: the section `run` in place of a model."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WrapValidator,
    field_validator,
)
from pydantic_core import PydanticCustomError

from trainway.launch.job_file.run_image import BY_DIGEST
from trainway.launch.program.stopping import LONGEST_GRACE_ON_SAGEMAKER
from trainway.parts.job import SECRET_NAME, Location, Trackers
from trainway.spec.sections.image import PipPackage
from trainway.spec.values import Section

SignalName = Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"]
# What the launcher sets on each node, and a program that sets it itself would not start.
_RESERVED = re.compile(r"^(TRAINWAY_.*|PET_(NNODES|NPROC_PER_NODE|NODE_RANK|RDZV_.*|MASTER_.*|LOG_DIR|STANDALONE))$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|API_KEY)$")
_LONGEST_GRACE = 3600
_NUMBER: Final = r"([-+]?[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"

# Regular expressions for the lines of well-known training programs, by the name that `run.metrics` gives them.
# trainer: transformers 5.23, whose progress bar and dictionary print no step of their own. megatron: Megatron-LM and
# Megatron-Bridge 0.6. titan: torchtitan 0.3. automodel: NeMo AutoModel 0.7. verl: verl 0.9. nccl: nccl-tests 2.17.
METRIC_PRESETS: Final[dict[str, dict[str, str]]] = {
    "trainer": {"step": r"(\d+)/\d+ \[", "loss": rf"'loss': '?{_NUMBER}"},
    "megatron": {"step": r"iteration\s+(\d+)/", "loss": rf"lm loss: {_NUMBER}"},
    "titan": {"step": r"step:\s*(\d+)\s+loss:", "loss": rf"step:\s*\d+\s+loss:\s*{_NUMBER}"},
    "automodel": {"step": r"step (\d+) \|", "loss": rf"step \d+ \|.*?loss {_NUMBER}"},
    "verl": {"step": r"step:(\d+) ", "loss": rf"actor/pg_loss:{_NUMBER}", "reward": rf"critic/rewards/mean:{_NUMBER}"},
    "nccl": {"bus_bandwidth": rf"Avg bus bandwidth\s*:\s*{_NUMBER}"},
}


def looks_like_secret(name: str) -> bool:
    """Return whether a variable of this name has a secret, which is in no job file."""
    return _SECRET.search(name) is not None


def _wrong(kind: str, sentence: str, remedy: str) -> PydanticCustomError:
    """Return an error whose sentence may have braces."""
    return PydanticCustomError(kind, "{sentence}", {"sentence": sentence, "remedy": remedy})


def _regular_expression(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise _wrong(
            "regex", f"it is no regular expression: {error}", "escape special characters, as in `\\[`"
        ) from None
    if groups != 1:
        remedy = r"put parentheses around the number, and only there, for example 'loss[ =:]+([\d.]+)'"
        raise _wrong("regex", f"it captures {groups} values instead of one number", remedy)
    return pattern


def _as_written(value: Any) -> Any:
    """Return a number as text, so that it needs no quotation marks. YAML has many words for a Boolean."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _metric_source(said: str) -> str:
    is_path = (
        re.fullmatch(r"(tensorboard(:[\w./*-]+)?|[\w./*-]+\.jsonl)", said) and ".." not in said and ":/" not in said
    )
    if said in METRIC_PRESETS or (is_path and not said.startswith("/")):
        return said
    known = ", ".join(METRIC_PRESETS)
    remedy = (
        f"write one of {known}, a path below the outputs such as training.jsonl, tensorboard, or tensorboard:FOLDER"
    )
    raise _wrong("metrics", f"{said!r} is neither a known program nor files with metrics", remedy)


Word = Annotated[str, BeforeValidator(_as_written)]
Pattern = Annotated[str, AfterValidator(_regular_expression)]
# One of two types, by what is written. A union would tell of both types whatever is wrong with one.
RunMetrics = Annotated[
    dict[str, Pattern],
    WrapValidator(
        lambda said, of_patterns: _metric_source(said) if isinstance(said, str) else of_patterns(said),
        json_schema_input_type=dict[str, str] | str,
    ),
]
RunPackages = Annotated[
    tuple[PipPackage, ...],
    WrapValidator(
        lambda said, of_names: said if isinstance(said, str) else of_names(said),
        json_schema_input_type=tuple[str, ...] | str,
    ),
]


class StopSection(Section):
    """How the program is asked to stop."""

    signal: SignalName = Field(
        "SIGTERM",
        description="Signal to the process that `command` starts. torchrun passes it on to its ranks.",
    )
    # The longest that every target allows. SageMaker kills a container 120 seconds after its signal, and the last
    # upload needs some of them (trainway/launch/sagemaker/container.py).
    grace: int = Field(
        LONGEST_GRACE_ON_SAGEMAKER,
        ge=1,
        le=_LONGEST_GRACE,
        description="Seconds from the signal to the end. What is left of the program is then killed.",
    )


class RunSection(Section):
    """A program, and what it needs."""

    command: tuple[Word, ...] | None = Field(
        None,
        min_length=1,
        description="Words of the command that every node runs, for example [torchrun, train.py]. Write either this or "
        "`script`.",
    )
    script: str | None = Field(
        None, min_length=1, description="Script for bash that every node runs. Write either this or `command`."
    )
    ranks: Literal["per-node", "per-gpu"] = Field(
        "per-node",
        description="Whether each node runs the program once, or once for each GPU. Each of the latter has the "
        "variables of a rank of torchrun and of a task of srun, such as RANK and SLURM_PROCID.",
    )
    code: str | None = Field(
        None,
        min_length=1,
        description="Directory with the code, relative to the job file. It is uploaded at each launch, and the program "
        "starts in it. Default: no code, and the program starts in the directory of the run.",
    )
    code_limit: int = Field(
        200,
        ge=1,
        le=4096,
        description="MiB of code that a launch uploads at most. Every node fetches all of it at each start.",
    )
    image: str | None = Field(
        None,
        min_length=1,
        description="Image to run in: `image`, or a name of the platform file's `images`. Or an image by its digest, "
        "for example jobs/llm@sha256:… in the platform's registry. Default: the image of the node group.",
    )
    packages: RunPackages = Field(
        (),
        description="Python packages beside those of the training image, for example [trl==1.16.0]. Or a file with "
        "requirements, relative to the job file. `trainway launch` writes all that they require, by version and "
        "checksum, to NAME.PLATFORM.packages.lock beside the job file. Default: the packages of the image.",
    )
    allow_environment: tuple[str, ...] = Field(
        (),
        description="Names of variables that the program sets although they take away EFA, libraries of the image, or "
        "GPUs, for example [NCCL_SOCKET_IFNAME].",
    )
    environment: dict[str, Word] = Field(
        {}, description="Environment variables. A value that is a location, such as fsx:/hf, becomes a path there."
    )
    secrets: dict[str, str] = Field(
        {},
        description="Environment variables whose values each node reads from AWS Secrets Manager, for example "
        "{HF_TOKEN: hugging-face}. NAME#KEY is one key of a secret that is a JSON object. The platform file lists the "
        "secrets that jobs can read.",
    )
    inputs: dict[str, Location] = Field(
        {}, description="Locations that the program reads. `data: s3:/corpus` becomes TRAINWAY_INPUT_DATA."
    )
    outputs: Location | None = Field(
        None,
        description="Location of the outputs. Each run has a directory of its name in it, which is TRAINWAY_OUTPUT. "
        "Default: the folder `outputs` in the directory of the run, which fsx:/runs means, too.",
    )
    array_index: int | None = Field(
        None,
        ge=0,
        description="TRAINWAY_ARRAY_INDEX of the program. `trainway launch --array N` sets it to 0, 1, … in N runs.",
    )
    elastic: bool = Field(
        False,
        description="Whether the program continues with another number of ranks. Then --min-nodes is possible.",
    )
    # HyperPod's operator restarts a job after the same time without a step (trainway/launch/kubernetes/options.py).
    hang_minutes: int = Field(
        30,
        ge=0,
        le=24 * 60,
        description="Minutes without output, step, and work after which a program that has taken steps is ended. 0: it "
        "is never ended.",
    )
    stop: StopSection = Field(StopSection(), description="How the program is asked to stop.")
    metrics: RunMetrics = Field(
        {},
        description="Regular expressions for lines of the output, each with one group that captures a number. `step` "
        f"is what `trainway status` shows. Or a program whose lines are known: {', '.join(METRIC_PRESETS)}. "
        "Or files below the outputs: a path such as training.jsonl, tensorboard, or tensorboard:FOLDER. Default: the "
        "step of the program's progress bar.",
    )

    @field_validator("script")
    @classmethod
    def _one_of_the_two(cls, script: str | None, info: ValidationInfo) -> str | None:
        if script is not None and info.data.get("command") is not None:
            raise _wrong("both", "the section has a `command`, too", "keep one of `command` and `script`")
        return script

    @field_validator("image")
    @classmethod
    def _an_image(cls, image: str | None) -> str | None:
        if image is None or BY_DIGEST.fullmatch(image) or re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", image):
            return image
        if re.search(r":[\w][\w.-]*$|@", image):
            remedy = (
                "write it as in jobs/llm@sha256:…, with the 64 digits that `docker buildx imagetools inspect` shows"
            )
            raise _wrong(
                "image", f"{image!r} is no image by its digest, and a tag can mean another one tomorrow", remedy
            )
        remedy = "name the folder in the platform file, as in `images: {own: {dockerfile: FOLDER}}`, deploy, and write "
        raise _wrong("image", f"{image!r} is no name of an image; a launch builds none", f"{remedy}`image: own` here")

    @field_validator("environment")
    @classmethod
    def _variables_of_the_user(cls, environment: dict[str, str]) -> dict[str, str]:
        for name in environment:
            if not _VARIABLE.match(name):
                raise _wrong("variable", f"{name!r} is no name of a variable", "use letters, digits, and underscores")
            if _RESERVED.match(name):
                raise _wrong("reserved", f"the launcher sets {name}", f"leave {name} out")
            if looks_like_secret(name):
                remedy = f"write `secrets: {{{name}: NAME}}`, with the name of a secret of AWS Secrets Manager"
                raise _wrong("secret", f"{name} looks like a secret, and everybody who sees the run sees it", remedy)
        return environment

    @field_validator("secrets")
    @classmethod
    def _names_of_secrets(cls, secrets: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, secret in secrets.items():
            if not _VARIABLE.match(name):
                raise _wrong("variable", f"{name!r} is no name of a variable", "use letters, digits, and underscores")
            if _RESERVED.match(name) or name in (info.data.get("environment") or {}):
                reason = f"the launcher or `environment` sets {name}"
                raise _wrong("reserved", reason, f"leave {name} out of one of the two")
            if not SECRET_NAME.fullmatch(secret):
                remedy = "write the name of a secret, for example hugging-face, and never its value"
                raise _wrong("secret", f"{name} has no name of a secret of AWS Secrets Manager", remedy)
        return secrets

    @field_validator("inputs", "metrics")
    @classmethod
    def _plain_names(cls, named: dict[str, str] | str) -> dict[str, str] | str:
        for name in named if isinstance(named, dict) else ():
            if not _VARIABLE.match(name):
                raise _wrong("name", f"{name!r} is no name", "use letters, digits, and underscores")
        return named


class LifeCycleSection(Section):
    """How often a run that fails starts again, and how long its object stays after the end."""

    restarts: int = Field(
        10,
        ge=0,
        le=1000,
        description="How often the run starts again: after a failure of its own on Kubernetes, and after a lost node "
        "on Slurm. Without this key, two attempts that fail in the same way without a new step end the run on "
        "Kubernetes, and Slurm has no limit.",
    )
    process_restarts: int = Field(
        0,
        ge=0,
        le=1000,
        description="How often torchrun starts a node's processes again in place. With more than 0, torchrun starts "
        "ranks again that a signal ended.",
    )
    keep_hours: int | None = Field(
        None,
        ge=1,
        le=8760,
        description="Hours that the object of a run stays in Kubernetes after the end. Default: 168.",
    )


class RunFile(Section):
    """The job file of a program that is not the training job of Trainway."""

    name: str = Field(
        min_length=1,
        max_length=50,
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        description="Lower-case letters, digits and hyphens. Names the runs.",
    )
    nodes: int = Field(1, ge=1, description="Nodes; every accelerator of a node is used.")
    team: str | None = Field(None, min_length=1, description="Team of the platform file whose quota the job uses.")
    life_cycle: LifeCycleSection = Field(LifeCycleSection(), description="Restarts after failures.")
    trackers: Trackers = Field(
        Trackers(),
        description="Trackers that the program's own framework reports to. They are named by environment variables.",
    )
    run: RunSection = Field(description="The program, for example run: {command: [torchrun, train.py], code: .}")

    @field_validator("run")
    @classmethod
    def _a_program(cls, run: RunSection) -> RunSection:
        if run.command is None and run.script is None:
            raise _wrong("no_program", "it says no program", "add `command`, for example command: [torchrun, train.py]")
        return run
