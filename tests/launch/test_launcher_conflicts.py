"""The launcher refuses words and variables that conflict with the platform, and warns of those that waste nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_trainway
from tests.launch.conftest import make_hand_off
from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.platforms import request_for
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.program.launcher_conflicts import Conflict, conflicts_of
from trainway.launch.sagemaker.container import check_starter
from trainway.launch.slurm import SlurmOptions
from trainway.launch.slurm.script import render_script
from trainway.spec.errors import UsageError


def conflicts(directory: Path, nodes: int, ranks: int | None, **run: Any) -> list[Conflict]:
    program = load_program(write_foreign_job(directory, nodes=nodes, **run))
    return conflicts_of(program, directory / "code", ranks)


TORCHRUN = ["torchrun", "train.py"]
REFUSED: list[tuple[list[str] | str, int, int | None, str]] = [
    (["torchrun", "--standalone", "train.py"], 4, None, "--standalone: each of the 4 nodes would train alone"),
    (["torchrun", "--nnodes=1", "train.py"], 2, None, "--nnodes=1: each of the 2 nodes would train alone"),
    (["torchrun", "--nnodes=1:1", "train.py"], 2, None, "--nnodes=1:1: each of the 2 nodes would train alone"),
    (["torchrun", "--nnodes", "3", "train.py"], 2, None, "--nnodes=3: the job has 2 nodes, and torchrun would wait"),
    (["torchrun", "--nnodes=2", "train.py"], 1, None, "the job has 1 node, and torchrun would wait for 2"),
    (["torchrun", "--nnodes=2", "train.py"], 4, None, "2 of the 4 nodes would train, and the others would wait"),
    (["torchrun", "--rdzv-endpoint=localhost:29400", "train.py"], 2, None, "each node would wait for itself"),
    (["torchrun", "--rdzv-endpoint=10.0.0.7:29400", "train.py"], 2, None, "does not know the names of its nodes"),
    ("export MASTER_ADDR='localhost'; torchrun --rdzv_endpoint=$MASTER_ADDR:1 train.py", 2, None, "wait for itself"),
    ("CUDA_VISIBLE_DEVICES=0,1 torchrun train.py", 1, None, "CUDA_VISIBLE_DEVICES hides GPUs"),
    (["accelerate", "launch", "--config_file=a", "--num_machines=1", "train.py"], 2, None, "--num_machines=1: each"),
    (["torchrun", "--rdzv_backend=static", "train.py"], 2, None, "each of the 2 nodes would be node 0"),
    (["python", "-m", "torch.distributed.launch", "--nnodes=1", "train.py"], 2, None, "would train alone"),
    (["torchrun", "--nproc_per_node=16", "train.py"], 1, 8, "--nproc-per-node=16: the node has 8 accelerators"),
    (["accelerate", "launch", "train.py"], 2, None, "accelerate launch without --num_machines=2: each of the 2"),
    (["accelerate", "launch", "--num_machines=2", "train.py"], 2, None, "each of the 2 nodes would be machine 0"),
    (["accelerate", "launch", "--num_machines=8", "train.py"], 2, None, "--num_machines=8: the job has 2 nodes"),
    (["accelerate", "launch", "--num_machines=2", "train.py"], 1, None, "--num_machines=2: the job has 1 node"),
    (["deepspeed", "train.py"], 2, None, "deepspeed: each of the 2 nodes would start ranks"),
    (["deepspeed", "--num_nodes=2", "train.py"], 1, None, "--num_nodes=2: the job has 1 node"),
    (["torchrun", "train.py", "--data=fsx:/corpus"], 1, None, "the program gets fsx:/corpus as it stands"),
    ("cd . && torchrun --standalone train.py", 2, None, "--standalone: each of the 2 nodes would train alone"),
    ("export FI_PROVIDER=tcp; torchrun train.py", 1, None, "FI_PROVIDER chooses another provider"),
]
SAME_ON_ALL_NODES = [
    ({"RANK": "0"}, ["python", "train.py"], 2, "RANK is 0 on each of the 2 nodes"),
    ({"NODE_RANK": "0"}, "python train.py", 2, "NODE_RANK is 0 on each"),
    ({"MASTER_ADDR": "localhost"}, ["./program"], 4, "each of the 4 nodes would wait for itself"),
    ({"RANK": "0", "MASTER_ADDR": "localhost"}, ["python", "train.py"], 1, ""),
    ({"RANK": "0", "MASTER_ADDR": "127.0.0.1"}, ["torchrun", "train.py"], 2, ""),
    ({"MASTER_ADDR": "head.example", "WORLD_SIZE": "16"}, ["./program"], 2, ""),
]
WARNED: list[tuple[list[str] | str, int, int | None, str]] = [
    (["python", "train.py"], 1, 8, "python: one process starts, which has 8 accelerators"),
    (["python", "train.py"], 2, None, "one process starts on each of the 2 nodes"),
    (["torchrun", "--nproc_per_node=1", "train.py"], 1, 8, "and 7 would be idle"),
    (["torchrun", "train.py", "--lr", "$LR"], 1, None, "no shell reads the command"),
    (["accelerate", "launch", "--config_file=a.yaml", "train.py"], 2, None, "how many machines there are"),
    ("accelerate launch $LAUNCH train.py", 2, None, "how many machines there are"),
    ("if true; then torchrun --standalone train.py; fi", 2, None, "--standalone"),
]
ACCEPTED: list[tuple[list[str] | str, int, int | None]] = [
    (TORCHRUN, 4, 8),
    (["torchrun", "--standalone", "--nnodes=1", "--nproc_per_node=8", "train.py"], 1, 8),
    (["torchrun", "--nnodes=4", "--nproc-per-node=gpu", "train.py"], 4, 8),
    (["torchrun", "--nnodes=1:4", "train.py"], 4, 8),
    (["torchrun", "train.py", "--nnodes=1", "--standalone"], 4, 8),
    (["torchrun", "train.py", "--bucket=s3://corpus/x"], 2, 8),
    (["python", "train.py"], 1, 1),
    (["accelerate", "launch", "--num_processes=8", "train.py"], 1, 8),
    (["mpirun", "./all_reduce_perf"], 2, 8),
    (["./program", "--standalone"], 2, 8),
    (
        ["python", "-m", "torch.distributed.launch", "--use-env", "--node_rank=0", "--master_addr=10.0.0.7", "t.py"],
        2,
        8,
    ),
    ("export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7; torchrun train.py", 2, 8),
    ("DIR=$(dirname $0)\npython -m torch.distributed.run $DIR/train.py", 2, 8),
    ('torchrun "${arguments[@]}" train.py', 2, 8),
    ("torchrun --nnodes=$TRAINWAY_NODES --node_rank=$TRAINWAY_NODE_RANK train.py", 4, 8),
    ("torchrun --nnodes=${SLURM_NNODES:-1} --rdzv-endpoint=$TRAINWAY_HEAD:29500 train.py", 4, 8),
    ("export PATH=/opt/x/bin:${PATH}; torchrun train.py", 2, 8),
    ("accelerate launch --num_machines=2 --machine_rank=$TRAINWAY_NODE_RANK train.py", 2, 8),
    ("deepspeed --no_ssh --node_rank=$TRAINWAY_NODE_RANK train.py", 2, 8),
]


def said(words: list[str] | str) -> dict[str, Any]:
    return {"script": words, "command": None} if isinstance(words, str) else {"command": words}


@pytest.mark.parametrize(("words", "nodes", "ranks", "why"), REFUSED)
def test_what_conflicts_with_the_platform_is_refused(
    words: list[str] | str, nodes: int, ranks: int | None, why: str, tmp_path: Path
) -> None:
    found = conflicts(tmp_path, nodes, ranks, **said(words))
    assert [each.is_certain for each in found if why in each.why] == [True], found
    assert all(each.fix and each.key[0] == "run" for each in found)


@pytest.mark.parametrize(("words", "nodes", "ranks", "why"), WARNED)
def test_what_is_a_waste_is_warned_of(
    words: list[str] | str, nodes: int, ranks: int | None, why: str, tmp_path: Path
) -> None:
    (found,) = conflicts(tmp_path, nodes, ranks, **said(words))
    assert why in found.why and not found.is_certain


@pytest.mark.parametrize(("words", "nodes", "ranks"), ACCEPTED)
def test_what_is_right_is_accepted(words: list[str] | str, nodes: int, ranks: int | None, tmp_path: Path) -> None:
    assert conflicts(tmp_path, nodes, ranks, **said(words)) == []


def test_a_script_of_the_code_is_read(tmp_path: Path) -> None:
    write_foreign_job(tmp_path)
    (tmp_path / "code/run.sh").write_text("#!/bin/bash\ntorchrun --standalone --nnodes=1 train.py\n")
    for command in (["bash", "run.sh"], ["./run.sh"], ["env", "A=1", "bash", "-x", "run.sh"]):
        found = conflicts(tmp_path, 2, None, command=command)
        assert [each.why.partition(":")[0].removeprefix("./") for each in found] == ["run.sh", "run.sh"]
    assert conflicts(tmp_path, 2, None, command=["bash", "absent.sh"]) == []


ENVIRONMENT = {
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    "NCCL_NET": "Socket",
    "FI_PROVIDER": "tcp",
    "NCCL_SOCKET_IFNAME": "^docker,lo,veth,eth",
    "NCCL_TUNER_PLUGIN": "/opt/aws-ofi-nccl/install/lib/libnccl-ofi-tuner.so",
    "CUDA_VISIBLE_DEVICES": "0",
}


def test_variables_that_take_efa_or_libraries_away_are_named_with_their_lines(tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, environment=ENVIRONMENT)
    refused = run_trainway("check", str(job), directory=tmp_path)
    assert refused.returncode == 2
    assert all(f"run.environment.{name} = " in refused.stderr for name in ENVIRONMENT)
    assert "6 problems found" in refused.stderr
    job = write_foreign_job(tmp_path, environment=ENVIRONMENT, allow_environment=list(ENVIRONMENT))
    assert run_trainway("check", str(job), directory=tmp_path).returncode == 0
    harmless = {"NCCL_NET": "AWS Libfabric", "FI_PROVIDER": "efa", "NCCL_P2P_DISABLE": "0", "NCCL_DEBUG": "INFO"}
    assert conflicts(tmp_path, 2, 8, environment=harmless) == []


def test_check_prints_warnings(tmp_path: Path) -> None:
    job = write_foreign_job(tmp_path, nodes=2, command=["python", "train.py"])
    checked = run_trainway("check", str(job), directory=tmp_path)
    assert checked.returncode == 0 and "warning: python: one process starts on each of the 2 nodes" in checked.stdout


@pytest.mark.parametrize(("environment", "command", "nodes", "why"), SAME_ON_ALL_NODES)
def test_a_variable_with_the_same_value_on_all_nodes_is_refused(
    environment: dict[str, str], command: list[str] | str, nodes: int, why: str, tmp_path: Path
) -> None:
    written: dict[str, Any] = {"environment": environment}
    written |= {"command": command} if isinstance(command, list) else {"script": command, "command": None}
    found = [each for each in conflicts(tmp_path, nodes, None, **written) if each.is_certain]
    assert [why in each.why for each in found] == ([True] if why else [])
    written["allow_environment"] = list(environment)
    assert not [each for each in conflicts(tmp_path, nodes, None, **written) if each.is_certain]


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (["mpirun", "./a"], "mpirun"),
        (["srun", "./a"], "srun"),
        (["horovodrun", "-np", "16", "python", "a.py"], "horovodrun"),
        (["colossalai", "run", "--nproc_per_node", "8", "a.py"], "colossalai"),
    ],
)
def test_a_launcher_of_all_nodes_is_refused_where_each_node_runs_it(
    command: list[str], launcher: str, tmp_path: Path
) -> None:
    refused = f"each node runs the program, and {launcher} would start"
    for name, target in (("kueue", "kubernetes"), ("kueue", "sagemaker")):
        started = request_for(name, run={"command": command})
        with pytest.raises(UsageError, match=refused):
            if target == "kubernetes":
                render_documents(started, CATALOGUE, KubernetesOptions(kind="JobSet"))
            else:
                check_starter(started)
    program = load_program(write_foreign_job(tmp_path, nodes=2, command=command))
    on_cluster = replace(request(tmp_path, on_slurm(make_hand_off()), nodes=2), program=program)
    with pytest.raises(UsageError, match=refused):
        render_script(on_cluster, CATALOGUE, SlurmOptions())
    assert render_documents(request_for("kueue", run={"command": command}), CATALOGUE, KubernetesOptions(kind="MPIJob"))
