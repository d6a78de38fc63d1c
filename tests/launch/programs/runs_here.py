"""The examples of other people's programs that run on CPUs, made small, with a model and data that need no network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "examples" / "jobs"
SMALL = "--width 32 --length 32 --save-every 10"


@dataclass(frozen=True)
class Program:
    """An example: what makes it small, which option has its last step, and what it leaves and says.

    `replaced` has words of the script, each with the words in its place. `rank` is a part of the command line of a
    rank, and `variable` a variable that its environment has when it starts. `checkpoint` is a pattern of the files in
    the outputs that exist once a checkpoint is complete. `resumed` is what the program prints when it starts from a
    checkpoint. `inputs` names what write_inputs has for an input under another name. The packages are installed with
    the environment `build`.
    """

    name: str
    small: str = SMALL
    last_step: str = "--steps"
    checkpoint: str = ""
    resumed: str = r"starts after step [1-9]\d*"
    inputs: Mapping[str, str] = field(default_factory=dict)
    build: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    rank: str = "train.py"
    variable: str = "LOCAL_RANK"


# On CPUs DeepSpeed compiles an operator in C++ when it starts, unless its package has been built with it, which takes a
# minute. The build needs PyTorch, which pip would otherwise download for it. For pip, 0 means no isolation.
# https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/setup.py
# https://github.com/pypa/pip/issues/5735 (read 2026-11-23)
WITH_OPERATOR = {"DS_ACCELERATOR": "cpu", "DS_BUILD_SHM_COMM": "1", "PIP_NO_BUILD_ISOLATION": "0"}
# Without these options, each node of Ray starts a process for each CPU, and takes a third of the memory for objects.
# The nodes of the tests share their CPUs and their memory.
SMALL_NODE = "--num-cpus=2 --object-store-memory=100000000"
RUNS_HERE = {
    each.name: each
    for each in (
        Program(
            "trainer",
            "--length 32 --save_steps 10 --logging_steps 5 --use_cpu True --learning_rate 1e-4",
            "--max_steps",
            "checkpoint-*/trainer_state.json",
            r"starts from \S*/checkpoint-\d+",
        ),
        Program(
            "trl",
            "--use_cpu True --bf16 False --dtype float32 --max_length 32 --packing False --save_steps 10",
            "--max_steps",
            "checkpoint-*/trainer_state.json",
            r"starts from \S*/checkpoint-\d+",
            inputs={"data": "rows"},
        ),
        Program("accelerate", checkpoint="step-*/model.safetensors"),
        Program("lightning", checkpoint="last*.ckpt"),
        Program("deepspeed", checkpoint="checkpoints/latest", build=WITH_OPERATOR),
        Program(
            "ray-train",
            replaced={"--min-nodes": f"{SMALL_NODE} --min-nodes"},
            rank="ray::RayTrainWorker",
            variable="RAY_JOB_ID",
            checkpoint="run/checkpoint_manager_snapshot.json",
        ),
    )
}


def write_inputs(directory: Path) -> dict[str, str]:
    """Write a text, rows of text, and a model with random weights, and return their locations by their names."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    text, rows, model = directory / "text.txt", directory / "rows", directory / "model"
    lines = [f"{number} squared is {number * number}." for number in range(4000)]
    text.write_text("\n".join(lines))
    rows.mkdir()
    (rows / "train.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    # No special words, so that every tokenizer reads them alike. The end of a text is the letter of byte 0.
    letters = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Tokenizer(BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="\u0100").save_pretrained(model)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(letters), **sizes)).save_pretrained(model)
    return {"data": str(text), "rows": str(rows), "model": str(model)}


def write_job(directory: Path, program: Program, inputs: dict[str, str], *, nodes: int, steps: int) -> Path:
    """Copy an example, with its script made small and its inputs on this machine, and return its job file."""
    copy = directory / program.name
    shutil.copytree(JOBS / program.name, copy, dirs_exist_ok=True)
    job: dict[str, Any] = yaml.safe_load((copy / "job.yaml").read_text())
    run = job["run"]
    options = f" {program.small} {program.last_step} {steps}"
    for words, others in program.replaced.items():
        assert words in run["script"]
        run["script"] = run["script"].replace(words, others)
    # The options of the command come last, and the last one of a name counts.
    run["script"] = run["script"].rstrip() + options
    run["inputs"] = {name: inputs[program.inputs.get(name, name)] for name in run["inputs"]}
    run["environment"] = {
        name: str(value).replace("fsx:", f"{directory}/") for name, value in run.get("environment", {}).items()
    }
    # The default. torchrun waits 60 seconds for a store whose host ended first, and hears no signal meanwhile.
    run["stop"] = {"grace": 120}
    file = copy / "job.yaml"
    file.write_text(yaml.safe_dump({**job, "nodes": nodes}, sort_keys=False))
    return file
