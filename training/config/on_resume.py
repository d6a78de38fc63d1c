"""What a run that resumes does with a key of the job file that has changed.

`used`: the new value takes effect. `refused`: the run ends before its first step, and names both values. `kept`: the
checkpoint decides, and a line says so. `training/checkpoint/identity.py` compares the keys that are refused.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ResumeRule:
    """What a resume does with some keys, and why. A key of a section has the section's name and a dot before it."""

    does: Literal["used", "refused", "kept"]
    keys: tuple[str, ...]
    why: str


def _in(section: str, keys: str) -> tuple[str, ...]:
    return tuple(f"{section}.{key}" for key in keys.split())


RESUME_RULES = (
    ResumeRule(
        "refused",
        (
            "model",
            *_in("variant", "tied sliding_window experts experts_per_token layers hidden heads key_value_heads"),
            *_in("variant", "attention_width feed_forward rope_theta norm_epsilon"),
            *_in("variant.rope_scaling", "factor original_length low_turns high_turns"),
        ),
        "The weights are those of one model. Sizes are compared, so a preset and a variant with its sizes are equal.",
    ),
    ResumeRule(
        "refused",
        (*_in("data", "train blend sequence_length shuffle_shards"), "evaluation.shards", "seed"),
        "The run would see some samples twice and others never. Tokens are compared, and may have another location.",
    ),
    ResumeRule("refused", ("optimizer.name",), "An optimizer cannot continue with the state of another one."),
    ResumeRule(
        "kept",
        ("checkpoint.start_from",),
        "The run has weights of its own. A line says that it does not read those.",
    ),
    ResumeRule(
        "used",
        ("steps", "optimizer.learning_rate", *_in("schedule", "shape warmup_steps decay_steps minimum_ratio")),
        "The learning rate of a step depends on these keys and on the number of the step, and on nothing else.",
    ),
    ResumeRule(
        "used",
        (*_in("optimizer", "betas epsilon weight_decay momentum"), "clip"),
        "They apply from the next step on. The moments are those of the checkpoint.",
    ),
    ResumeRule("used", ("optimizer.state",), "The moments of the checkpoint are converted."),
    ResumeRule(
        "used",
        (*_in("batch", "global micro"), "data.mask_documents"),
        "The next step takes the samples that follow. None is left out, and none is seen twice.",
    ),
    ResumeRule(
        "used",
        ("precision",),
        "Weights and moments of a checkpoint do not depend on it. A run that changes to or from fp16 begins with the "
        "first loss scale.",
    ),
    ResumeRule(
        "used",
        (
            *_in("float8", "recipe all_gather keep_first_and_last"),
            "linear",
            "compile",
            "device",
            *_in("memory", "activation_checkpointing checkpoint_every reshard_after_forward gradient_accumulation"),
            *_in("memory", "loss_chunks offload"),
        ),
        "A checkpoint does not depend on how a step is computed.",
    ),
    ResumeRule(
        "used",
        ("nodes", *_in("parallel", "dp_shard dp_replicate tp cp pp ep cp_method pp_schedule")),
        "A checkpoint has whole parameters by name, and each rank reads the parts that it has now.",
    ),
    ResumeRule(
        "used",
        ("checkpoint.location",),
        "The run looks for its checkpoints there. If it had some and they are not there, it is refused.",
    ),
    ResumeRule(
        "used",
        (
            *_in("checkpoint", "every interruptions_per_1000_node_days keep keep_every async memory_every local_disk"),
            *_in("checkpoint", "failures failure_minutes"),
        ),
        "They apply from the next save on.",
    ),
    ResumeRule(
        "used",
        (
            *_in("evaluation", "every samples"),
            *_in("instability", "skip_limit action rewinds spike_sigma spike_window"),
            *_in(
                "hang_detection",
                "action step_factor least_seconds meeting_seconds other_seconds collective_timeout_seconds",
            ),
            "replica_check.every",
        ),
        "They apply from the next step on. The rule for spikes begins with the losses in the checkpoint.",
    ),
    ResumeRule(
        "used",
        (
            *("name", "image", "team"),
            *_in("life_cycle", "restarts process_restarts keep_hours"),
            *_in("data", "cache cache_gib"),
            *_in("trackers.mlflow", "tracking_uri experiment secret"),
            *_in("trackers.wandb", "project entity mode base_url secret"),
            *_in("trackers.comet", "project workspace mode base_url secret"),
        ),
        "They are read at each start. The default of `checkpoint.location` has the name of the job.",
    ),
)
