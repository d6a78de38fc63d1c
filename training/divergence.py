"""Notice that a run diverges, and stop it or go back to its newest checkpoint."""

import math
from collections import Counter
from dataclasses import replace

import torch.distributed as dist

from training.checkpoint import Progress
from training.errors import Diverged
from training.model.finite import all_finite
from training.observe.metrics import Metrics
from training.observe.reports import StepResult
from training.setup import Setup, begin


def past_limit(setup: Setup, step: int, result: StepResult | None) -> str | None:
    """Return why the run diverges if a step is the last of too many skipped ones, otherwise None."""
    limit = setup.job.instability.skip_limit
    if result is None or result.in_a_row < limit:
        return None
    return f"{limit} consecutive steps were skipped. In the last one, step {step}, {result.reason}"


def not_finite(setup: Setup, step: int) -> str | None:
    """Return why the run diverges if its weights are not finite, otherwise None. Every rank calls this."""
    if all_finite(setup.local.model):
        return None
    return f"the weights are not finite after step {step}"


def rewound(
    setup: Setup, progress: Progress, divergence: str, rewinds: Counter[int], metrics: Metrics | None
) -> Progress:
    """Load the newest checkpoint, and return its progress with the samples that follow those of `progress`.

    The samples between the checkpoint and `progress` are not seen again. `rewinds` counts by the step of the
    checkpoint. A run that never had a checkpoint begins anew, with other samples.

    Raises:
        Diverged: the job stops instead, or has gone back to this checkpoint often enough.
        UserError: the checkpoints of the run are gone.
    """
    settings = setup.job.instability
    remedy = "Lower optimizer.learning_rate, lengthen schedule.warmup_steps, or look for bad data"

    def tell() -> None:
        if metrics:
            metrics.event("diverged", step=progress.step, reason=divergence)
        # The first rank can host the store. If it exits while another rank still asks the store whether to stop, that
        # rank fails with a lost connection, and not with the status of a run that diverges.
        dist.barrier()

    if settings.action == "stop":
        tell()
        raise Diverged(
            f"{divergence}. The checkpoints are from before. {remedy}, or set instability.action to rewind, which "
            "leaves these samples out. Then launch the job again, which resumes from its newest checkpoint"
        )
    loaded, _ = begin(setup)
    rewinds[loaded.step] += 1
    if rewinds[loaded.step] > settings.rewinds:
        tell()
        raise Diverged(f"{divergence}. The run went back to step {loaded.step} {settings.rewinds} times. {remedy}")
    if metrics:
        left_out = [loaded.samples, progress.samples]
        metrics.event("rewound", step=progress.step, to_step=loaded.step, samples=left_out, reason=divergence)
        samples = f"samples {left_out[0]} to {left_out[1] - 1} are left out"
        print(f"rewound step={progress.step} to_step={loaded.step}: {divergence}; {samples}", flush=True)
    return replace(loaded, samples=progress.samples, loss=loaded.loss if loaded.step else math.nan)
