"""Layouts of a training job that fit the GPUs of an instance type, ranked by an estimate of the time of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainway.launch.job_file.on_checkpoint import job_model
from trainway.launch.starting.job_checks import RESERVED_GIB
from trainway.launch.tuning.layout_runs import gpus_here, measured_seconds
from trainway.parts.job import SHARE_OF_PEAK, Job, LayoutChoice, NodeRates, layout_choices
from trainway.spec import strict_yaml
from trainway.spec.document import read_document
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Instance
from trainway.spec.loader import load

NVLINK_GB_PER_SECOND: Final = {"A100": 600, "H100": 900, "H200": 900, "B200": 1800}
"""Bandwidth of one GPU over NVLink, of both directions together: https://acecloud.ai/blog/nvidia-b200-vs-h200-h100-a100
(read 2026-11-23). Each direction has half of it."""


@dataclass(frozen=True)
class Tuning:
    """The fastest layouts of a job on the nodes of an instance type, and how many fit.

    `ranks` is the number of GPUs of the job, and `gpu` their name.
    """

    file: Path
    job: Job
    instance: Instance
    gpu: str
    ranks: int
    fitting: int
    fastest: tuple[LayoutChoice, ...]


def tuned(file: Path, instance_type: str, count: int, catalogue: Catalogue) -> Tuning:
    """Return the `count` fastest layouts of a job file on nodes of an instance type.

    Raises SpecError with every problem of the file. Raises UsageError for a file without a model, for a precision or a
    type whose rates are unknown, and where no layout fits.
    """
    what = f"{file} cannot be tuned"
    if "run" in read_document(file).data:
        fix = "name the job file of a training job, which has the key `model`"
        raise usage_error(what, why="Trainway does not know the layout of other programs", fix=fix)
    job = load(file, job_model(Job))
    if job.precision == "fp32" or job.float8.recipe != "none":
        why = "the catalogue's rates are used for products in 16 bits only"
        raise usage_error(what, why=why, fix="set `precision: bf16`, and leave `float8` out, in a copy of the file")
    if instance_type not in catalogue:
        fix = "use a type that `trainway instances` lists"
        raise usage_error(what, why=f"there is no instance type {instance_type}", fix=fix)
    instance = catalogue[instance_type]
    node, name, memory = _node(instance, what)
    ranks = job.nodes * node.gpus
    found = layout_choices(job, ranks, node, (memory - RESERVED_GIB) * 2**30)
    if not found:
        why = f"no layout on {ranks} {name} needs at most {memory - RESERVED_GIB} GiB of each, or divides the batch"
        raise usage_error(what, why=why, fix="use more `nodes`, or a shorter `data.sequence_length`")
    return Tuning(file, job, instance, name, ranks, len(found), tuple(found[:count]))


def shown(tuning: Tuning) -> str:
    """Return the layouts and what their estimates assume, as lines of text."""
    return "\n".join(
        [
            _head(tuning),
            "  step s   GiB   keys of the job file",
            *(f"{each.seconds:8.2f} {each.needed / 2**30:5.0f}   {_keys(each)}" for each in tuning.fastest),
            "Nothing was run. The estimate assumes that",
            *_assumptions(tuning.instance, tuning.gpu),
        ]
    )


def as_document(tuning: Tuning) -> dict[str, Any]:
    """Return the layouts as plain values for JSON, the fastest first. Times are in seconds, memory in bytes."""
    layouts = [
        {"step_seconds": each.seconds, "bytes": each.needed, "changes": dict(each.changes)} for each in tuning.fastest
    ]
    return {
        "job": tuning.job.name,
        "instance_type": tuning.instance.name,
        "ranks": tuning.ranks,
        "fitting": tuning.fitting,
        "layouts": layouts,
    }


def check_measurable(tuning: Tuning) -> None:
    """Raise UsageError unless this machine has exactly the GPUs of the job."""
    if (here := gpus_here()) != tuning.ranks:
        why = f"the job has {tuning.ranks} GPUs, and this machine has {here}"
        fix = "run this on a node of a job with `nodes: 1`, or launch the files of `--write DIR` on the platform"
        raise usage_error(f"the layouts of {tuning.file} cannot be measured here", why=why, fix=fix)


def measured(tuning: Tuning, steps: int) -> Iterator[str]:
    """Run `steps` steps of each layout on this machine's devices, and yield lines of text as they are known."""
    yield _head(tuning)
    yield "measured  step s   GiB   keys of the job file"
    for choice in tuning.fastest:
        found = measured_seconds(tuning.file, choice.changes, tuning.ranks, steps)
        row = f"{choice.seconds:8.2f} {choice.needed / 2**30:5.0f}   {_keys(choice)}"
        yield f"{'-':>8}{row}   ({found})" if isinstance(found, str) else f"{found:8.2f}{row}"
    yield f"Measured: the median of {steps} steps on this machine. The estimate beside it assumes that"
    yield from _assumptions(tuning.instance, tuning.gpu)


def _head(tuning: Tuning) -> str:
    where = f"{tuning.job.nodes} x {tuning.instance.name}, {tuning.ranks} {tuning.gpu}"
    return f"{tuning.job.name} on {where}: {tuning.fitting} layouts fit; the fastest:"


def _node(instance: Instance, what: str) -> tuple[NodeRates, str, int]:
    """Return the rates of a node, and the name and the GiB of its GPUs."""
    accelerator = instance.accelerator
    known = ", ".join(NVLINK_GB_PER_SECOND)
    if accelerator is None or accelerator.name not in NVLINK_GB_PER_SECOND or accelerator.bf16_tflops is None:
        why = f"the rates of NVLink are known only for {known}, and {instance.name} has none of them"
        raise usage_error(what, why=why, fix="name another --instance-type, for example p5.48xlarge")
    node = NodeRates(
        gpus=accelerator.count,
        flops=accelerator.bf16_tflops * 1e12,
        between_gpus=NVLINK_GB_PER_SECOND[accelerator.name] / 2 * 1e9,
        network=instance.network_gbps / 8 * 1e9,
    )
    return node, accelerator.name, accelerator.memory_gib


def _keys(choice: LayoutChoice) -> str:
    """Return the changes as YAML in one line, for a job file."""
    flow = strict_yaml.dump(choice.changes, flow=True, width=1000)
    return flow.strip().removeprefix("{").removesuffix("}")


def _assumptions(instance: Instance, name: str) -> list[str]:
    accelerator = instance.accelerator
    assert accelerator is not None  # _node has refused the others
    return [
        f"- products reach {SHARE_OF_PEAK:.0%} of the {accelerator.bf16_tflops:g} TFLOP/s in bf16 of an {name};",
        f"- a GPU receives {NVLINK_GB_PER_SECOND[name] // 2} GB/s over NVLink;",
        f"- a node receives {instance.network_gbps:g} Gb/s over its network;",
        "- gathers and reductions of weights run during the computation, and those of activations do not;",
        "- selective checkpointing computes half of a forward pass again, and full checkpointing all of it;",
        f"- CUDA and NCCL take {RESERVED_GIB} of {accelerator.memory_gib} GiB, and the vocabulary is that of Llama 3.",
    ]
