"""The whole job file, and the rules between its sections."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from training.config.batch import Batch
from training.config.checkpoint import Checkpoint
from training.config.data import Data
from training.config.evaluation import Evaluation
from training.config.float8 import Float8
from training.config.hang_detection import HangDetection
from training.config.instability import Instability
from training.config.layout import Layout, layout_of
from training.config.life_cycle import LifeCycle
from training.config.memory import Memory
from training.config.optimizer import Optimizer, Schedule
from training.config.parallel import Parallel
from training.config.replica_check import ReplicaCheck
from training.config.section import Section
from training.config.trackers import Trackers
from training.config.variant import Variant


class Job(Section):
    """One training job."""

    name: str = Field(
        min_length=1,
        # An orchestrator can append a suffix within the 63 characters of a DNS label (RFC 1123).
        max_length=50,
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        description="Lower-case letters, digits, and hyphens. The name of the run and, by default, of its checkpoints.",
    )
    nodes: int = Field(1, ge=1, description="Number of nodes. The job uses all accelerators of each node.")
    device: Literal["accelerator", "cpu"] = Field(
        "accelerator",
        description="Device of the ranks. accelerator: the GPUs of the node, and the CPU only on an instance type "
        "without accelerators. A node whose GPUs cannot be used ends the job. cpu: the CPU, also on a node with "
        "accelerators.",
    )
    image: str | None = Field(
        None,
        min_length=1,
        description="Name of the platform's image to run in: `image`, or a name of the platform file's `images`. "
        "Default: the image of the node group.",
    )
    model: Literal["tiny", "125m", "1b", "8x1b", "8b", "8b-slice8", "70b", "405b"] = Field(
        description="A preset of training/config/presets.py. The size of the vocabulary comes from the data."
    )
    variant: Variant = Field(Variant(), description="Changes to the preset.")
    data: Data
    parallel: Parallel = Field(Parallel(), description="Layout of the ranks.")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "bf16",
        description="Type of the matrix products. Weights and reductions are always fp32. fp16 scales the loss and "
        "skips steps that overflow.",
    )
    float8: Float8 = Field(Float8(), description="Matrix products in float8.")
    linear: Literal["torch", "transformer-engine"] = Field(
        "torch",
        description="Implementation of linear layers, PyTorch or NVIDIA's Transformer Engine, which then also "
        "computes float8 products. Checkpoints are the same.",
    )
    memory: Memory = Field(Memory(), description="Ways to use less device memory.")
    compile: Literal["none", "inductor", "aot_eager"] = Field(
        "none",
        description="Backend of torch.compile, which compiles each layer. aot_eager generates no kernels. It shows "
        "whether a difference comes from tracing.",
    )
    batch: Batch
    steps: int = Field(
        ge=1, description="Number of optimizer steps of the whole job. The learning rate schedule ends here."
    )
    optimizer: Optimizer = Field(Optimizer(), description="The optimizer and its settings.")
    schedule: Schedule = Field(Schedule(), description="Learning rate schedule.")
    evaluation: Evaluation = Field(Evaluation(), description="Evaluation of the loss on held-out shards.")
    clip: float = Field(1.0, gt=0, description="Largest norm of the gradient. A larger gradient is scaled down to it.")
    instability: Instability = Field(
        Instability(), description="Steps whose loss or gradient is not finite, or a spike."
    )
    hang_detection: HangDetection = Field(
        HangDetection(), description="Steps that take too long, and what the run does then."
    )
    replica_check: ReplicaCheck = Field(
        ReplicaCheck(), description="Comparison of the weights of replicas, which detects a broken device."
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the initial weights and of the order of the samples.")
    checkpoint: Checkpoint = Field(Checkpoint(), description="When and where checkpoints are saved.")
    life_cycle: LifeCycle = Field(
        LifeCycle(), description="Restarts after failures, and how long a finished run stays in Kubernetes."
    )
    trackers: Trackers = Field(
        Trackers(), description="Where the metrics go beside metrics.jsonl and TensorBoard. Default: nowhere."
    )
    team: str | None = Field(None, min_length=1, description="Team of the platform file whose quota the job uses.")

    @field_validator("float8")
    @classmethod
    def _float8_that_is_multiplied_so(cls, float8: Float8, info: ValidationInfo) -> Float8:
        parallel = info.data.get("parallel")
        if float8.recipe == "none" or parallel is None:
            return float8
        if parallel.tp != 1 and float8.recipe in ("blockwise", "mxfp8"):
            raise PydanticCustomError(
                "float8_tp",
                "recipe is {recipe}, but parallel.tp is {tp}, and its blocks are of whole matrices",
                {
                    "recipe": float8.recipe,
                    "tp": parallel.tp,
                    "remedy": "use tensorwise or rowwise, or set parallel.tp to 1",
                },
            )
        if parallel.pp != 1 and parallel.pp_schedule == "zero-bubble":
            raise PydanticCustomError(
                "float8_zero_bubble",
                "recipe is {recipe}, but pp_schedule zero-bubble takes the backward pass apart, which a product in "
                "float8 does not allow",
                {"recipe": float8.recipe, "remedy": "use pp_schedule interleaved, or recipe none"},
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

    @field_validator("linear")
    @classmethod
    def _what_transformer_engine_has(cls, linear: str, info: ValidationInfo) -> str:
        parallel, float8 = info.data.get("parallel"), info.data.get("float8")
        if linear == "torch" or parallel is None or float8 is None:
            return linear
        zero_bubble = parallel.pp != 1 and parallel.pp_schedule == "zero-bubble"
        for wrong, sentence, remedy in (
            (parallel.tp != 1, f"parallel.tp is {parallel.tp}, and its layers are not divided", "set parallel.tp to 1"),
            (zero_bubble, "pp_schedule is zero-bubble, and its backward pass does not come apart", "use interleaved"),
            (float8.recipe == "rowwise", "float8.recipe is rowwise, which it does not have", "use tensorwise"),
            (float8.all_gather, "float8.all_gather is true, and it takes weights in bf16", "leave all_gather out"),
        ):
            if wrong:
                raise PydanticCustomError(
                    "transformer_engine",
                    "linear is {linear}, but {sentence}",
                    {"linear": linear, "sentence": sentence, "remedy": f"{remedy}, or linear to torch"},
                )
        return linear

    @field_validator("memory")
    @classmethod
    def _no_scales_of_weights_on_the_host(cls, memory: Memory, info: ValidationInfo) -> Memory:
        float8 = info.data.get("float8")
        if float8 is not None and float8.all_gather and memory.offload:
            raise PydanticCustomError(
                "offload_all_gather",
                "offload is true, but float8.all_gather is too, and the scales of weights on the host would be there",
                {"remedy": "leave float8.all_gather out, or offload"},
            )
        return memory

    @field_validator("memory")
    @classmethod
    def _no_selection_among_traveling_tokens(cls, memory: Memory, info: ValidationInfo) -> Memory:
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

    @field_validator("optimizer")
    @classmethod
    def _steps_that_a_host_makes(cls, optimizer: Optimizer, info: ValidationInfo) -> Optimizer:
        memory = info.data.get("memory")
        if memory is not None and memory.offload and optimizer.name != "adamw":
            raise PydanticCustomError(
                "offload_optimizer",
                "name is {name}, but memory.offload is true, and the host would take long for more than AdamW's step",
                {"name": optimizer.name, "remedy": "use adamw, or leave memory.offload out"},
            )
        return optimizer

    @field_validator("replica_check")
    @classmethod
    def _replicas_to_compare(cls, check: ReplicaCheck, info: ValidationInfo) -> ReplicaCheck:
        parallel = info.data.get("parallel")
        if parallel is not None and check.every is not None and parallel.dp_replicate == 1:
            raise PydanticCustomError(
                "replicas",
                "every is {every}, but parallel.dp_replicate is 1, so there are no replicas to compare",
                {"every": check.every, "remedy": "remove every, or set parallel.dp_replicate to 2 or more"},
            )
        return check

    # A validator of the field, not of the whole model, so that the problem is reported together with others.
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
        """Return the location of the checkpoints. Default: `s3:/checkpoints/<name>`."""
        return self.checkpoint.location or f"s3:/checkpoints/{self.name}"

    @property
    def tokens_per_step(self) -> int:
        """Return the number of tokens in one optimizer step, over all ranks."""
        return self.batch.global_ * self.data.sequence_length

    def layout(self, world_size: int) -> Layout:
        """Return the parallel degrees for `world_size` ranks.

        Raises:
            ValueError: a number does not divide. The message says which one, and which would.
        """
        return layout_of(self.parallel, self.batch, self.evaluation, world_size)
