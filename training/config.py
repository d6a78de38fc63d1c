"""The job file: what to train and on how many nodes, as frozen models.

This module imports neither torch nor anything else of this project, because the launcher validates a job file with
the very code that the job runs, on machines where torch does not exist.

A problem is a Pydantic error. Where a rule is ours, the error's `ctx["remedy"]` says what would be right.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

LOCATION_FORMS = "fsx:/path, s3:/path, s3://bucket/key or a plain path"


def _known_location(location: str) -> str:
    scheme, colon, rest = location.partition(":")
    plain = not colon or "/" in scheme
    in_a_bucket = scheme == "s3" and rest.startswith("//") and rest.count("/") >= 3 and rest[2] != "/"
    below_a_root = scheme in ("fsx", "s3") and rest.startswith("/") and not rest.startswith("//")
    if location.strip() and (plain or in_a_bucket or below_a_root):
        return location
    raise PydanticCustomError(
        "location", "'{location}' is not a location", {"location": location, "remedy": f"write {LOCATION_FORMS}"}
    )


Location = Annotated[str, AfterValidator(_known_location)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Data(_Section):
    """Which tokens the model sees."""

    train: Location = Field(
        description=f"Where `python -m training.prepare` put the token shards: {LOCATION_FORMS}.",
        examples=["fsx:/corpus/web"],
    )
    sequence_length: int = Field(2048, ge=2, description="Tokens in one training sample.")
    cache: str | None = Field(
        None,
        description="Directory on each node's local disk for shards fetched from S3. Default: trainway/shards below "
        "$XDG_CACHE_HOME, or below ~/.cache where that is not set.",
    )


class Parallel(_Section):
    """How the ranks of the job are laid out; the product of the degrees is the number of ranks."""

    dp_shard: int = Field(-1, description="Ranks that share one copy of the weights (FSDP); -1 takes the ranks left.")
    dp_replicate: int = Field(
        1, description="Copies of the weights (HSDP where dp_shard is above 1); -1 takes the ranks left."
    )
    tp: int = Field(1, description="Tensor-parallel degree; only 1 for now.")
    cp: int = Field(1, description="Context-parallel degree; only 1 for now.")
    pp: int = Field(1, description="Pipeline-parallel degree; only 1 for now.")

    @field_validator("dp_shard", "dp_replicate")
    @classmethod
    def _positive_or_derived(cls, degree: int) -> int:
        if degree == -1 or degree >= 1:
            return degree
        raise PydanticCustomError(
            "degree", "a degree of {degree} is impossible", {"degree": degree, "remedy": "write 1 or more, or -1"}
        )

    @field_validator("tp", "cp", "pp")
    @classmethod
    def _data_parallel_only(cls, degree: int, info: ValidationInfo) -> int:
        if degree == 1:
            return degree
        raise PydanticCustomError(
            "data_parallel_only",
            "{dimension} is {degree}, but the job runs data-parallel only (dp_shard, dp_replicate)",
            {
                "dimension": info.field_name,
                "degree": degree,
                "remedy": f"leave {info.field_name} out or set it to 1, and let dp_shard cover the ranks",
            },
        )

    @model_validator(mode="after")
    def _one_unknown(self) -> Self:
        if self.dp_shard == self.dp_replicate == -1:
            raise PydanticCustomError(
                "two_unknowns",
                "dp_shard and dp_replicate are both -1, so neither can be derived",
                {"remedy": "give one of them a number"},
            )
        return self


class Batch(_Section):
    """How many samples make a step, and how they are cut up."""

    global_: int = Field(
        alias="global", ge=1, description="Samples in one optimizer step, over all ranks. It fixes what is learned."
    )
    micro: int = Field(
        1, ge=1, description="Samples in one forward pass of one rank. It fixes how much memory that takes."
    )

    @model_validator(mode="after")
    def _whole_micro_batches(self) -> Self:
        if self.global_ % self.micro:
            raise PydanticCustomError(
                "batch",
                "a global batch of {global} samples cannot be cut into micro-batches of {micro}",
                {
                    "global": self.global_,
                    "micro": self.micro,
                    "remedy": f"make global a multiple of {self.micro}, such as "
                    f"{-(-self.global_ // self.micro) * self.micro}",
                },
            )
        return self


class Optimizer(_Section):
    """AdamW (Loshchilov & Hutter, arXiv 1711.05101). The betas and the decay are those of arXiv 2302.13971."""

    learning_rate: float = Field(3e-4, gt=0, description="Peak learning rate.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.95), description="Decay rates of the first and second moment."
    )
    epsilon: float = Field(1e-8, gt=0, description="Added to the denominator.")
    weight_decay: float = Field(
        0.1, ge=0, description="Decoupled decay of the matrices; norms and embeddings are never decayed."
    )


class Schedule(_Section):
    """Linear warm-up, then half a cosine down to a floor at the last step."""

    warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises to its peak.")
    minimum_ratio: float = Field(0.1, ge=0, le=1, description="Learning rate of the last step over the peak.")


class Checkpoint(_Section):
    """When and where the state of the run is kept."""

    every: int = Field(500, ge=1, description="Steps between checkpoints; the last step always makes one.")
    keep: int = Field(3, ge=1, description="Newest checkpoints that are kept; older ones are deleted.")
    location: Location | None = Field(
        None, description=f"{LOCATION_FORMS}. Default: s3:/checkpoints/<name>.", examples=["fsx:/checkpoints/llama"]
    )


@dataclass(frozen=True)
class Layout:
    """The parallel degrees and the accumulation that a world size gives; all are counts."""

    dp_replicate: int
    dp_shard: int
    accumulation_steps: int


class Job(_Section):
    """One training job."""

    name: str = Field(
        min_length=1,
        # Short enough that an orchestrator can append a suffix within the 63 characters of a DNS label (RFC 1123).
        max_length=50,
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        description="Lower-case letters, digits and hyphens. Names the run and, by default, its checkpoints.",
    )
    nodes: int = Field(1, ge=1, description="Nodes; every accelerator of a node is used.")
    model: Literal["tiny", "125m", "1b", "8b"] = Field(
        description="A preset of training/presets.py. The vocabulary comes from the data."
    )
    data: Data
    parallel: Parallel = Field(Parallel(), description="How the ranks are laid out.")
    precision: Literal["fp32", "bf16"] = Field(
        "bf16", description="Type of the matrix products; the weights and the reductions are fp32 in both."
    )
    batch: Batch
    steps: int = Field(ge=1, description="Optimizer steps of the whole job; the schedule ends here.")
    optimizer: Optimizer = Field(Optimizer(), description="AdamW.")
    schedule: Schedule = Field(Schedule(), description="The learning rate over the steps.")
    clip: float = Field(1.0, gt=0, description="Largest norm of the gradient; above it, the gradient is scaled down.")
    seed: int = Field(0, ge=0, lt=2**32, description="Decides the initial weights and the order of the samples.")
    checkpoint: Checkpoint = Field(Checkpoint(), description="When and where the state is kept.")
    team: str | None = Field(None, min_length=1, description="Team of the platform file whose quota the job uses.")

    # Beside the field and not after the whole model, so that it is reported together with problems elsewhere.
    @field_validator("schedule")
    @classmethod
    def _warmup_ends(cls, schedule: Schedule, info: ValidationInfo) -> Schedule:
        steps = info.data.get("steps")
        if steps is not None and schedule.warmup_steps >= steps:
            raise PydanticCustomError(
                "warmup",
                "a warm-up of {warmup_steps} steps does not end within a job of {steps}",
                {"warmup_steps": schedule.warmup_steps, "steps": steps, "remedy": f"use at most {steps - 1}"},
            )
        return schedule

    @property
    def checkpoint_location(self) -> str:
        """Where the checkpoints go, by the job file or by default."""
        return self.checkpoint.location or f"s3:/checkpoints/{self.name}"

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one optimizer step learns from, over all ranks."""
        return self.batch.global_ * self.data.sequence_length

    def layout(self, world_size: int) -> Layout:
        """The degrees for `world_size` ranks.

        Raises:
            ValueError: a number does not divide; the sentence says which, and what would.
        """
        shard, replicate = self.parallel.dp_shard, self.parallel.dp_replicate
        fixed = replicate if shard == -1 else shard
        if -1 in (shard, replicate):
            if world_size % fixed:
                name = "dp_replicate" if shard == -1 else "dp_shard"
                raise ValueError(
                    f"parallel.{name} is {fixed}, which does not divide the {world_size} ranks of this job; "
                    f"use a divisor of {world_size}, or another number of nodes"
                )
            shard = world_size // fixed if shard == -1 else shard
            replicate = world_size // fixed if replicate == -1 else replicate
        if shard * replicate != world_size:
            raise ValueError(
                f"parallel.dp_shard x parallel.dp_replicate is {shard} x {replicate} = {shard * replicate}, but the "
                f"job has {world_size} ranks; set one of them to -1 to derive it"
            )
        samples_per_pass = self.batch.micro * world_size
        if self.batch.global_ % samples_per_pass:
            raise ValueError(
                f"batch.global is {self.batch.global_}, but one pass of {world_size} ranks with batch.micro "
                f"{self.batch.micro} takes {samples_per_pass} samples; make batch.global a multiple of that"
            )
        return Layout(replicate, shard, self.batch.global_ // samples_per_pass)


def load(path: Path) -> Job:
    """The job of a job file. Where the file is wrong, prints every problem to stderr and exits with status 2."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        _refuse([f"cannot be read: {error}"], path)
    except yaml.YAMLError as error:
        _refuse([f"is not YAML: {error}"], path)
    if not isinstance(document, dict):
        _refuse(["is not a mapping of keys to values; see examples/jobs/tiny.yaml"], path)
    try:
        return Job.model_validate(document)
    except ValidationError as error:
        _refuse([_sentence(problem) for problem in error.errors(include_url=False)], path)


def _sentence(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    found = "" if problem["type"] == "missing" else f" (found {problem['input']!r})"
    remedy = problem.get("ctx", {}).get("remedy")
    return f"{key}: {problem['msg']}{found}" + (f"; {remedy}" if remedy else "")


def _refuse(problems: list[str], path: Path) -> NoReturn:
    # All ranks of a host read the same file, so one of them speaks for it.
    if os.environ.get("LOCAL_RANK", "0") == "0":
        for problem in problems:
            print(f"{path}: {problem}", file=sys.stderr)
    sys.exit(2)
