"""The words of launchers are read as the launchers read them."""

from __future__ import annotations

import pytest

from trainway.launch.program.launcher_words import TORCHRUN_OPTIONS, launchers_of_command, read_script


def test_the_options_of_torchrun_are_those_of_its_own_parser() -> None:
    from torch.distributed.run import get_args_parser

    parser = get_args_parser()
    long = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    assert {name[2:].replace("_", "-") for name in long} == set(TORCHRUN_OPTIONS)
    for words in (
        ["--nnodes=2", "--nproc_per_node", "8", "--standalone", "train.py", "--nnodes", "5"],
        ["--nn", "2:4", "--nproc-per-node=gpu", "-t", "3", "-m", "package.module", "-x"],
        ["--no_python", "--rdzv_endpoint", "h:1", "--max-r", "3", "./program", "--standalone"],
        ["--virtual-local-rank", "--node_rank=1", "--master_addr", "h", "train.py"],
    ):
        told, (read,) = vars(parser.parse_args(words)), launchers_of_command(["torchrun", *words])
        assert read.program == (told["training_script"], *told["training_script_args"])
        for option, value in read.options.items():
            is_on, said = value is None, told[option.replace("-", "_")]
            assert said is True if is_on else str(said) == value, (words, option)


@pytest.mark.parametrize(
    ("words", "launcher", "options"),
    [
        (["python3", "-m", "torch.distributed.run", "--nnodes", "2", "t.py"], "torchrun", {"nnodes": "2"}),
        (["env", "A=1", "nsys", "profile", "-o", "x", "torchrun", "t.py"], "torchrun", {}),
        (["uv", "run", "--", "torchrun", "--nnodes=1", "t.py"], "torchrun", {"nnodes": "1"}),
        (["accelerate", "launch", "--multi_gpu", "--num_machines", "4", "t.py"], "accelerate", {"num-machines": "4"}),
        (["deepspeed", "--num_gpus=8", "--no_ssh", "t.py"], "deepspeed", {"num-gpus": "8"}),
        (["bash", "-c", "cd x && torchrun --nnodes ${NNODES:-1} t.py; echo"], "torchrun", {"nnodes": "1"}),
        (["mpirun", "-np", "16", "./a.out"], "mpirun", {"np": "16"}),
        (["python", "-u", "train.py", "torchrun"], "python", {}),
    ],
)
def test_a_launcher_is_found_behind_other_words(words: list[str], launcher: str, options: dict[str, str]) -> None:
    (read,) = launchers_of_command(words)
    assert read.launcher == launcher and options.items() <= read.options.items()


def test_a_program_without_a_launcher_has_none() -> None:
    for words in (["./train"], ["nvidia-smi"], ["./train.py", "torchrun"], ["ray", "start"], ["bash", "run.sh"]):
        assert launchers_of_command(words) == []


SCRIPT = """
NNODES=1
GPUS=${GPUS:-8}  # torchrun --nnodes=7
if [ "$X" = 1 ]; then
  torchrun --nnodes=$NNODES --nproc_per_node=$GPUS \\
     train.py
fi
export FI_PROVIDER=tcp LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH
exec torchrun --nnodes=$SLURM_NNODES train.py | tee log
echo "don't
"""


def test_a_script_is_read_with_the_values_that_it_sets() -> None:
    read = read_script(SCRIPT)
    assert [(each.options, each.may_not_run) for each in read.commands] == [
        ({"nnodes": "1", "nproc-per-node": "8"}, True),
        ({"nnodes": "$SLURM_NNODES"}, False),
    ]
    assert read.commands[1].known.get("nnodes") is None
    assert dict(read.exported) == {"FI_PROVIDER": "tcp", "LD_LIBRARY_PATH": "/x:$LD_LIBRARY_PATH"}


def test_a_word_of_several_lines_is_read_and_text_for_a_program_is_not() -> None:
    text = """
cat > hostfile <<'HOSTS'
it's one host: torchrun --nnodes=7 train.py
HOSTS
srun -l bash -c "
  source modules.sh
  torchrun --nnodes=2 train.py
"
python -c 'print(1)
print(2)'; torchrun --nnodes=3 train.py
"""
    srun, python, torchrun = read_script(text).commands
    assert [each.launcher for each in (srun, python, torchrun)] == ["srun", "python", "torchrun"]
    assert torchrun.known.get("nnodes") == "3"


def test_what_only_a_shell_knows_is_one_word() -> None:
    text = """
RANKS=$(( ${SLURM_NNODES:-1} * $(nvidia-smi -L | wc -l) ))
accelerate launch --num_processes $((8 * $(nproc))) --machine_rank `cat rank` --num_machines ${1:-2} train.py
torchrun --nproc-per-node $RANKS --rdzv-endpoint="$(hostname -f):29500" train.py
"""
    accelerate, torchrun = read_script(text).commands
    assert (accelerate.program, torchrun.program) == (("train.py",), ("train.py",))
    assert accelerate.known.get("num-processes") is None and "$" in str(accelerate.options["machine-rank"])
    assert accelerate.known.get("num-machines") == "2" and torchrun.known.get("rdzv-endpoint") == "localhost:29500"
    assert read_script(text, {"1": "4"}).commands[0].known.get("num-machines") == "4"
