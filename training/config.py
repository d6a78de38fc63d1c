"""The job file: what to train and on how many nodes, as frozen models.

This module imports neither torch nor anything else of this project, because the launcher validates a job file with
the very code that the job runs, on machines where torch does not exist.

A problem is a Pydantic error. Where a rule is ours, the error's `ctx["remedy"]` says what would be right.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, replace
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
    blend: dict[Location, Annotated[float, Field(ge=0.001, lt=1)]] = Field(
        {},
        description="Other token shards and the share of the samples that comes from each, to a thousandth; the rest "
        "comes from `train`. All must be made with the same tokenizer.",
        examples=[{"fsx:/corpus/code": 0.2}],
    )
    mask_documents: bool = Field(
        False,
        description="Whether attention stops at the beginning of a document, where a sample holds several. "
        "Rotary positions run on, which is the same: attention sees differences of positions only.",
    )
    shuffle_shards: int = Field(
        64,
        ge=1,
        description="Shards whose samples are shuffled together. From S3, a node holds so many and fetches as many.",
    )
    cache: str | None = Field(
        None,
        description="Directory on each node's local disk for shards fetched from S3. Default: trainway/shards below "
        "$XDG_CACHE_HOME, or below ~/.cache where that is not set.",
    )
    cache_gib: float | None = Field(
        None, gt=0, description="GiB that `cache` may take; shards used longest ago are deleted. Default: no limit."
    )

    @field_validator("blend")
    @classmethod
    def _something_is_left_for_train(cls, blend: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if info.data.get("train") in blend:
            raise PydanticCustomError(
                "blend",
                "'{train}' is data.train, which gets what the others leave",
                {"train": info.data["train"], "remedy": "leave it out of data.blend"},
            )
        if sum(blend.values()) > 0.999:
            raise PydanticCustomError(
                "blend",
                "the shares add up to {total}, which leaves nothing for data.train",
                {"total": f"{sum(blend.values()):g}", "remedy": "let them add up to less than 1"},
            )
        return blend

    @property
    def shares(self) -> dict[str, float]:
        """Every location and its share of the samples, `train` first."""
        return {self.train: 1 - sum(self.blend.values())} | self.blend


DEGREES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")


class Parallel(_Section):
    """How the ranks of the job are laid out; the product of the degrees is the number of ranks."""

    dp_shard: int = Field(
        -1, description="Ranks that share one copy of the weights (FSDP); -1, in one degree, takes the ranks left."
    )
    dp_replicate: int = Field(
        1,
        description="Copies of the weights: HSDP where dp_shard is above 1, DDP where it is 1.",
    )
    tp: int = Field(
        1, description="Tensor-parallel degree: ranks that share each matrix product, and the sequence between them."
    )
    cp: int = Field(1, description="Context-parallel degree: ranks that share the sequence.")
    pp: int = Field(1, description="Pipeline-parallel degree: ranks that the layers are divided over.")
    ep: int = Field(
        1,
        ge=1,
        description="Expert-parallel degree: of the dp_shard x cp ranks, so many at a time divide the experts between "
        "them. It is no factor of the number of ranks.",
    )
    cp_method: Literal["gather", "all-to-all"] = Field(
        "gather",
        description="gather: every rank gets all keys and values. all-to-all: every rank gets all of the sequence for "
        "some of the heads; sends less where there are many query heads to a key head, and needs as many key heads.",
    )
    pp_schedule: Literal["1f1b", "interleaved", "zero-bubble"] = Field(
        "1f1b",
        description="Order of the micro-batches. 1f1b: one stage a rank. interleaved and zero-bubble: two stages a "
        "rank, which halves the time that ranks wait; zero-bubble fills it with gradients of the weights.",
    )

    @field_validator(*DEGREES)
    @classmethod
    def _positive_or_derived(cls, degree: int) -> int:
        if degree == -1 or degree >= 1:
            return degree
        raise PydanticCustomError(
            "degree", "a degree of {degree} is impossible", {"degree": degree, "remedy": "write 1 or more, or -1"}
        )

    @model_validator(mode="after")
    def _one_unknown(self) -> Self:
        unknown = [name for name in DEGREES if getattr(self, name) == -1]
        if len(unknown) > 1:
            raise PydanticCustomError(
                "two_unknowns",
                "{names} are both -1, so neither can be derived",
                {"names": " and ".join(unknown[:2]), "remedy": "give all degrees but one a number"},
            )
        return self

    @property
    def stages_per_rank(self) -> int:
        """Parts of the model that one rank of the pipeline holds."""
        return 1 if self.pp_schedule == "1f1b" else 2


class Memory(_Section):
    """What is computed again or gathered again instead of being kept."""

    activation_checkpointing: Literal["none", "full", "selective"] = Field(
        "none",
        description="What the backward pass computes again. full: everything in a layer. selective: all but attention "
        "and every second matrix product, which are dear.",
    )
    checkpoint_every: int = Field(1, ge=1, description="Every which layer is checkpointed: 2 leaves out every second.")
    reshard_after_forward: bool = Field(
        True,
        description="Whether a layer's gathered weights are freed after its forward pass and gathered again for the "
        "backward pass (ZeRO-3), or kept until then (ZeRO-2). A pipeline always keeps them.",
    )
    loss_chunks: int = Field(
        1,
        ge=1,
        description="Chunks of the sequence whose logits are in memory one at a time; computes the output projection "
        "once more. Where tp is above 1 the logits are divided by it already.",
    )


class Float8(_Section):
    """Matrix products of the layers in float8, by torchao (install trainway[quantized])."""

    recipe: Literal["none", "tensorwise", "rowwise"] = Field(
        "none",
        description="What has a scale of its own: a whole tensor, which is fastest, or each row, which is closer.",
    )
    all_gather: bool = Field(
        False, description="Whether FSDP gathers the weights in float8, which sends half; with tensorwise scales only."
    )
    keep_first_and_last: bool = Field(
        False, description="Whether the first and the last layer keep the job's precision, which learns more stably."
    )

    @model_validator(mode="after")
    def _gathered_by_tensor(self) -> Self:
        if self.all_gather and self.recipe != "tensorwise":
            raise PydanticCustomError(
                "float8_all_gather",
                "all_gather is true, but recipe is {recipe}, and only tensorwise weights can be gathered in float8",
                {"recipe": self.recipe, "remedy": "set recipe to tensorwise, or leave all_gather out"},
            )
        return self


class RotaryScaling(_Section):
    """Rotary positions stretched for longer texts, as Llama 3.1 does."""

    factor: float = Field(gt=1, description="By how much slow frequencies are slowed down: 8 in Llama 3.1.")
    original_length: int = Field(8192, ge=1, description="Tokens of the longest text that the model knew before.")
    low_turns: float = Field(
        1.0, gt=0, description="Frequencies below so many turns in that length are slowed in full."
    )
    high_turns: float = Field(4.0, gt=0, description="Frequencies above so many turns are left as they are.")

    @model_validator(mode="after")
    def _a_ramp_between(self) -> Self:
        if self.low_turns < self.high_turns:
            return self
        raise PydanticCustomError(
            "ramp",
            "low_turns {low} is not below high_turns {high}",
            {"low": self.low_turns, "high": self.high_turns, "remedy": "use 1 and 4 as Llama 3.1 does"},
        )


class Variant(_Section):
    """What is changed in the preset."""

    tied: bool | None = Field(
        None, description="Whether the output projection is the embedding. Default: the preset's."
    )
    sliding_window: int | None = Field(
        None, ge=1, description="Tokens that a token sees, itself included. Default: all before it."
    )
    experts: int | None = Field(
        None, ge=2, description="Feed-forwards in a layer, of which a token goes through two. Default: the preset's."
    )
    rope_scaling: RotaryScaling | None = Field(None, description="Stretched rotary positions. Default: none.")


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
    """AdamW (Loshchilov & Hutter, arXiv 1711.05101) or Muon. The betas and the decay are those of arXiv 2302.13971."""

    name: Literal["adamw", "adamw-8bit", "muon"] = Field(
        "adamw",
        description="adamw-8bit keeps the moments of large matrices in 8 bits (torchao). muon makes the update of a "
        "layer's matrices orthogonal and takes AdamW for the rest, with the learning rate and decay of AdamW for both.",
    )
    learning_rate: float = Field(3e-4, gt=0, description="Peak learning rate.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.95), description="Decay rates of the first and second moment."
    )
    epsilon: float = Field(1e-8, gt=0, description="Added to the denominator.")
    weight_decay: float = Field(
        0.1, ge=0, description="Decoupled decay of the matrices; norms and embeddings are never decayed."
    )
    momentum: float = Field(0.95, ge=0, lt=1, description="Decay rate of Muon's momentum.")


class Schedule(_Section):
    """Linear warm-up, then down to a floor at the last step: half a cosine, or a plateau and a short decay (WSD)."""

    shape: Literal["cosine", "wsd"] = Field(
        "cosine", description="cosine falls from the end of the warm-up on; wsd stays at the peak until decay_steps."
    )
    warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises to its peak.")
    decay_steps: int | None = Field(
        None, ge=1, description="Last steps over which wsd falls. Default: a fifth of the job's steps."
    )
    minimum_ratio: float = Field(0.1, ge=0, le=1, description="Learning rate of the last step over the peak.")

    @field_validator("decay_steps")
    @classmethod
    def _only_of_wsd(cls, decay_steps: int | None, info: ValidationInfo) -> int | None:
        if decay_steps is None or info.data.get("shape") == "wsd":
            return decay_steps
        raise PydanticCustomError(
            "decay",
            "a cosine has no decay_steps: it falls from the end of the warm-up on",
            {"remedy": "leave decay_steps out, or set schedule.shape to wsd"},
        )


class Evaluation(_Section):
    """The loss on text that is not trained on."""

    every: int = Field(500, ge=1, description="Steps between evaluations; the last step always makes one.")
    shards: int = Field(
        0, ge=0, description="Last shards of data.train that are held out, and evaluated on; 0 is no evaluation."
    )
    samples: int = Field(256, ge=1, description="Samples of an evaluation, over all ranks; always the same ones.")


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

    pp: int
    dp_replicate: int
    dp_shard: int
    cp: int
    tp: int
    ep: int
    accumulation_steps: int
    """Micro-batches of a rank in one optimizer step."""

    @property
    def dp(self) -> int:
        """Groups of ranks that see different samples."""
        return self.dp_replicate * self.dp_shard


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
    model: Literal["tiny", "125m", "1b", "8x1b", "8b", "8b-slice8", "70b", "405b"] = Field(
        description="A preset of training/presets.py. The vocabulary comes from the data."
    )
    variant: Variant = Field(Variant(), description="What is changed in the preset.")
    data: Data
    parallel: Parallel = Field(Parallel(), description="How the ranks are laid out.")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "bf16",
        description="Type of the matrix products; the weights and the reductions are fp32 in all. fp16 scales the "
        "loss, and skips steps that overflow.",
    )
    float8: Float8 = Field(Float8(), description="Matrix products in float8.")
    memory: Memory = Field(Memory(), description="What is computed again to save memory.")
    compile: Literal["none", "inductor", "aot_eager"] = Field(
        "none",
        description="Backend of torch.compile, layer by layer. aot_eager makes no kernels: it tells whether a "
        "difference comes from tracing.",
    )
    batch: Batch
    steps: int = Field(ge=1, description="Optimizer steps of the whole job; the schedule ends here.")
    optimizer: Optimizer = Field(Optimizer(), description="What makes a step of a gradient.")
    schedule: Schedule = Field(Schedule(), description="The learning rate over the steps.")
    evaluation: Evaluation = Field(Evaluation(), description="The loss on held-out shards.")
    clip: float = Field(1.0, gt=0, description="Largest norm of the gradient; above it, the gradient is scaled down.")
    seed: int = Field(0, ge=0, lt=2**32, description="Decides the initial weights and the order of the samples.")
    checkpoint: Checkpoint = Field(Checkpoint(), description="When and where the state is kept.")
    team: str | None = Field(None, min_length=1, description="Team of the platform file whose quota the job uses.")

    @field_validator("float8")
    @classmethod
    def _float8_of_whole_matrices(cls, float8: Float8, info: ValidationInfo) -> Float8:
        parallel = info.data.get("parallel")
        if float8.recipe == "none" or parallel is None:
            return float8
        if parallel.tp != 1:
            raise PydanticCustomError(
                "float8_tp",
                "recipe is {recipe}, but parallel.tp is {tp}, and products of divided matrices are not in float8",
                {"recipe": float8.recipe, "tp": parallel.tp, "remedy": "set parallel.tp to 1, or recipe to none"},
            )
        if info.data.get("precision") != "bf16":
            raise PydanticCustomError(
                "float8_precision",
                "recipe is {recipe}, but precision is {precision}",
                {
                    "recipe": float8.recipe,
                    "precision": info.data.get("precision"),
                    "remedy": "set precision to bf16, in which everything else is computed",
                },
            )
        return float8

    @field_validator("memory")
    @classmethod
    def _no_selection_among_travelling_tokens(cls, memory: Memory, info: ValidationInfo) -> Memory:
        parallel = info.data.get("parallel")
        if parallel is not None and parallel.ep > 1 and memory.activation_checkpointing == "selective":
            raise PydanticCustomError(
                "selective_experts",
                "activation_checkpointing is selective, but parallel.ep is {ep}, and layers whose experts are on other "
                "ranks are computed again as a whole",
                {"ep": parallel.ep, "remedy": "use full or none"},
            )
        return memory

    @field_validator("compile")
    @classmethod
    def _no_zero_bubble_of_compiled_layers(cls, compiler: str, info: ValidationInfo) -> str:
        parallel = info.data.get("parallel")
        if parallel is not None and parallel.pp != 1 and parallel.pp_schedule == "zero-bubble" and compiler != "none":
            raise PydanticCustomError(
                "compiled_zero_bubble",
                "compile is {compiler}, but pp_schedule zero-bubble takes the backward pass apart, which a compiled "
                "layer does not allow",
                {"compiler": compiler, "remedy": "use pp_schedule interleaved, or compile none"},
            )
        return compiler

    @field_validator("evaluation")
    @classmethod
    def _evaluation_without_a_pipeline(cls, evaluation: Evaluation, info: ValidationInfo) -> Evaluation:
        parallel = info.data.get("parallel")
        if parallel is not None and parallel.pp != 1 and evaluation.shards:
            raise PydanticCustomError(
                "evaluation_of_a_pipeline",
                "shards is {shards}, but a pipeline (parallel.pp) runs no forward pass without a backward pass here",
                {"shards": evaluation.shards, "remedy": "leave evaluation.shards out, or set parallel.pp to 1"},
            )
        return evaluation

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
        if steps is not None and schedule.decay_steps and schedule.warmup_steps + schedule.decay_steps > steps:
            raise PydanticCustomError(
                "decay",
                "a warm-up of {warmup_steps} steps and a decay of {decay_steps} do not fit into a job of {steps}",
                {
                    "warmup_steps": schedule.warmup_steps,
                    "decay_steps": schedule.decay_steps,
                    "steps": steps,
                    "remedy": f"use a schedule.decay_steps of at most {steps - schedule.warmup_steps}",
                },
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
        degrees = {name: int(getattr(self.parallel, name)) for name in DEGREES}
        given = {name: degree for name, degree in degrees.items() if degree not in (-1, 1)}
        product = math.prod(given.values())
        derived = next((name for name, degree in degrees.items() if degree == -1), None)
        if derived and world_size % product:
            raise ValueError(
                f"parallel.{_product(given)}, which does not divide the {world_size} ranks of this job; "
                f"use a divisor of {world_size}, or another number of nodes"
            )
        if derived:
            degrees[derived] = world_size // product
        elif product != world_size:
            raise ValueError(
                f"parallel.{_product(given or degrees)}, but the job has {world_size} ranks; "
                "set one of them to -1 to derive it"
            )
        layout = Layout(**degrees, ep=self.parallel.ep, accumulation_steps=1)
        samples_per_pass = self.batch.micro * layout.dp
        if self.batch.global_ % samples_per_pass:
            raise ValueError(
                f"batch.global is {self.batch.global_}, but one pass of {layout.dp} data-parallel ranks with "
                f"batch.micro {self.batch.micro} takes {samples_per_pass} samples; make batch.global a multiple of that"
            )
        if self.evaluation.shards and self.evaluation.samples % samples_per_pass:
            raise ValueError(
                f"evaluation.samples is {self.evaluation.samples}, but one pass of {layout.dp} data-parallel ranks "
                f"with batch.micro {self.batch.micro} takes {samples_per_pass} samples; make evaluation.samples a "
                "multiple of that"
            )
        layout = replace(layout, accumulation_steps=self.batch.global_ // samples_per_pass)
        if layout.pp > 1 and layout.accumulation_steps % layout.pp:
            raise ValueError(
                f"batch.global {self.batch.global_} makes {layout.accumulation_steps} micro-batches a rank, which "
                f"parallel.pp {layout.pp} does not divide; make batch.global a multiple of "
                f"{samples_per_pass * layout.pp}"
            )
        return layout


def _product(degrees: dict[str, int]) -> str:
    """The degrees as a sentence: `dp_shard is 8`, or `dp_shard x tp is 4 x 2 = 8`."""
    names, values = " x ".join(degrees), " x ".join(map(str, degrees.values()))
    return f"{names} is {values}" + (f" = {math.prod(degrees.values())}" if len(degrees) > 1 else "")


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
