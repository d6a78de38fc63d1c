"""What in the words and variables of a program conflicts with the platform: nodes that meet, ranks, and the image."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from trainway.launch.platform.locations import SCHEMES
from trainway.launch.program.launcher_words import (
    LauncherCommand,
    Script,
    launchers_of_command,
    read_script,
    script_of,
)
from trainway.launch.program.program import Program
from trainway.launch.program.rank_launchers import ONCE_PER_GPU

_LARGEST_SCRIPT = 2**20
_THIS_NODE = re.compile(r"(localhost|127\.0\.0\.1|0\.0\.0\.0|::1|\[::1\])(:\d*)?")
_LOCATION = re.compile(rf"(?:^|=)((?:{'|'.join(SCHEMES)}):/(?!/)\S*)")
_OF_SHELL = re.compile(r"\$(\w+|\{\w+\})")
_TOLD = "the launcher tells torchrun how many nodes there are, and where they meet"
_TORCHRUN = "write `torchrun` in its place, whose variables the library reads"
# Values with which a variable takes nothing away, in lower case. The plugin has two names, which NCCL compares without
# case: nvidia_plugin_name_fixup in src/nccl_ofi_interface_nvidia.cpp of aws-ofi-nccl (read 2026-11-29)
_HARMLESS = {
    "NCCL_NET": ("aws libfabric", "libfabric"),
    "NCCL_NET_PLUGIN": ("ofi", "aws-ofi"),
    "FI_PROVIDER": ("efa",),
}
_IMAGE = "replaces what the image sets, by which its programs and the plugin of EFA are found"
_TAKEN: Mapping[str, str] = {
    "NCCL_NET": "chooses another network than EFA",
    "NCCL_NET_PLUGIN": "chooses another plugin than that of EFA",
    "NCCL_TUNER_PLUGIN": "is the file of another image, and replaces the tuner of the plugin of EFA",
    "NCCL_SOCKET_IFNAME": "chooses the interfaces of NCCL, and those of a node have other names",
    "GLOO_SOCKET_IFNAME": "chooses the interface of Gloo, and those of a node have other names",
    "FI_PROVIDER": "chooses another provider of libfabric than efa",
    "LD_LIBRARY_PATH": _IMAGE,
    "LD_PRELOAD": "loads a library into each process before those of the image",
    "PATH": _IMAGE,
    "PYTHONHOME": "replaces the Python of the image",
    "CUDA_VISIBLE_DEVICES": "hides GPUs of the node, each of which a rank uses",
    "NVIDIA_VISIBLE_DEVICES": "hides GPUs of the node, each of which a rank uses",
    "NEURON_RT_VISIBLE_CORES": "hides NeuronCores of the node",
    "NCCL_P2P_DISABLE": "turns NVLink off between the GPUs of a node",
    "NCCL_SHM_DISABLE": "turns shared memory off between the GPUs of a node",
}


@dataclass(frozen=True)
class Conflict:
    """A word of a program, or a variable, that conflicts with the platform. Not `is_certain` is a warning."""

    key: tuple[str, ...]
    """The key of the job file."""
    why: str
    fix: str
    is_certain: bool = True


def conflicts_of(program: Program, directory: Path | None, ranks: int | None = None) -> list[Conflict]:
    """Return the conflicts of a program of a section `run`.

    `directory` has its code, or is None if the code is not on this machine. `ranks` is the number of accelerators of a
    node, and None where the platform is not known.
    """
    if program.started_by is None:
        return []
    is_per_gpu = program.command[: len(ONCE_PER_GPU)] == ONCE_PER_GPU
    if is_per_gpu:
        program = _of_a_rank(program)
    found = [
        Conflict(("run", "environment", name), f"{name} {why}", _allow(name))
        for name, why in _taken_away(program.environment, program.allowed_variables, ranks).items()
    ]
    commands = _commands(program)
    if not is_per_gpu:
        found += _same_on_all_nodes(program, commands)
    if (program.outputs or "").rstrip("/").removesuffix(f"/{program.team}") == "s3:/runs":
        why = f"{program.outputs} has the files of the launcher, which the program could delete"
        found.append(Conflict(("run", "outputs"), why, "leave `outputs` out, or name another prefix: s3:/checkpoints"))
    key = ("run", "script" if program.is_script else "command")
    of_launchers = _in_ranks if is_per_gpu else partial(_all, nodes=program.nodes, ranks=ranks)
    if program.is_script:
        script = read_script(program.command[0], program.environment)
        return [*found, *_in_script(key, script, program, ranks), *of_launchers(key, script.commands)]
    found += _words(program.command)
    file = script_of(program.command)
    if file is not None and directory is not None and (text := _text(directory / file)) is not None:
        words = program.command[program.command.index(file) + 1 :]
        numbered = {str(number): word for number, word in enumerate(words, 1)}
        script = read_script(text, {**program.environment, **numbered})
        of_script = [*_in_script(key, script, program, ranks), *of_launchers(key, script.commands)]
        return [*found, *(replace(each, why=f"{file}: {each.why}") for each in of_script)]
    found += of_launchers(key, commands)
    if [each.launcher for each in commands] == ["python"] and not is_per_gpu:
        found += _python_alone(key, program.nodes, ranks)
    return found


def _in_script(key: tuple[str, ...], script: Script, program: Program, ranks: int | None) -> Iterator[Conflict]:
    # `PATH=/opt/bin:$PATH` takes nothing away.
    replaced = {name: value for name, value in script.exported.items() if f"${name}" not in value.replace("{", "")}
    for name, why in _taken_away(replaced, program.allowed_variables, ranks).items():
        yield Conflict(key, f"{name} {why}", _allow(name))


def _of_a_rank(program: Program) -> Program:
    """Return the program that torchrun starts once for each GPU, with its script if it is one."""
    words = program.command[len(ONCE_PER_GPU) :]
    is_script = words[:2] == ("bash", "-c")
    return replace(program, command=words[2:] if is_script else words, is_script=is_script)


def _in_ranks(key: tuple[str, ...], commands: Sequence[LauncherCommand]) -> Iterator[Conflict]:
    """Yield the launchers that each rank would start, and that start ranks themselves."""
    for command in commands:
        if command.launcher != "python":
            why = f"each rank would start {command.launcher}, which starts ranks itself"
            fix = f"leave `ranks: per-gpu` out, or {command.launcher}"
            yield Conflict(key, why, fix, is_certain=not command.may_not_run)


def starts_on_all_nodes(program: Program) -> str | None:
    """Return the launcher that starts ranks on all nodes by itself, although each node runs the program, or None."""
    if program.started_by is None:
        return None
    words = program.command
    commands = read_script(words[0], program.environment).commands if program.is_script else launchers_of_command(words)
    # The others start the ranks of one node there. srun waits for the resources that the step of the program has.
    refused = ("srun",) if program.nodes == 1 else ("mpirun", "horovodrun", "colossalai", "srun")
    return next((each.launcher for each in commands if each.launcher in refused and not each.may_not_run), None)


def _commands(program: Program) -> Sequence[LauncherCommand]:
    words = program.command
    return read_script(words[0]).commands if program.is_script else launchers_of_command(words)


def _same_on_all_nodes(program: Program, commands: Sequence[LauncherCommand]) -> Iterator[Conflict]:
    """Yield the variables whose value cannot be right on several nodes. torchrun gives its ranks their own."""
    if program.nodes == 1 or any(each.launcher == "torchrun" for each in commands):
        return
    for name in sorted({*program.environment} - {*program.allowed_variables}):
        value = program.environment[name]
        if name in ("RANK", "NODE_RANK"):
            why = f"{name} is {value} on each of the {program.nodes} nodes"
            fix = f"leave {name} out: TRAINWAY_NODE_RANK is the number of the node, and torchrun numbers the ranks"
        elif name == "MASTER_ADDR" and _THIS_NODE.fullmatch(value):
            why = f"MASTER_ADDR is {value}: each of the {program.nodes} nodes would wait for itself"
            fix = "leave MASTER_ADDR out: TRAINWAY_HEAD is the first node, and torchrun tells its ranks"
        else:
            continue
        yield Conflict(("run", "environment", name), why, f"{fix}. Or add `allow_environment: [{name}]`")


def _allow(name: str) -> str:
    return (
        f"leave {name} out, because the image and the launcher set what is needed, or add `allow_environment: [{name}]`"
    )


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8") if file.stat().st_size <= _LARGEST_SCRIPT else None
    except (OSError, UnicodeDecodeError):
        return None


def _words(command: tuple[str, ...]) -> Iterator[Conflict]:
    """Yield the words that no program gets as they are meant: locations, and variables of a shell."""
    for word in command:
        if match := _LOCATION.search(word):
            name = "TRAINWAY_INPUT_DATA"
            why = f"the program gets {match[1]} as it stands, and no path"
            fix = f"add `inputs: {{data: {match[1]}}}`, and use ${name} in a `script`, or read {name} in the program"
            yield Conflict(("run", "command"), why, fix)
        elif (match := _OF_SHELL.search(word)) and command[0] not in ("bash", "sh"):
            why = f"no shell reads the command, so that the program gets {match[0]} as it stands"
            yield Conflict(("run", "command"), why, "write the command as `script`", is_certain=False)


def _all(
    key: tuple[str, ...], commands: Sequence[LauncherCommand], nodes: int, ranks: int | None
) -> Iterator[Conflict]:
    for command in commands:
        for each in _of_launcher(command, nodes, ranks):
            yield replace(each, key=key, is_certain=each.is_certain and not command.may_not_run)


def _of_launcher(command: LauncherCommand, nodes: int, ranks: int | None) -> Iterator[Conflict]:
    match command.launcher:
        case "torchrun":
            yield from _of_torchrun(command, nodes)
            yield from _processes(command, "nproc-per-node", "--nproc-per-node", ranks)
        case "accelerate":
            yield from _of_accelerate(command, nodes)
            if nodes == 1:
                yield from _processes(command, "num-processes", "--num_processes", ranks)
        case "deepspeed":
            yield from _of_deepspeed(command, nodes)
            yield from _processes(command, "num-gpus", "--num_gpus", ranks)


def _of_torchrun(command: LauncherCommand, nodes: int) -> Iterator[Conflict]:
    if nodes > 1 and "standalone" in command.options:
        yield _wrong(f"--standalone: {_alone(nodes)}", f"leave --standalone out: {_TOLD}")
    if wanted := command.known.get("nnodes"):
        yield from _number_of_nodes(wanted, nodes)
    if nodes == 1:
        return
    # The backend is c10d unless the words say otherwise, and only the static one has use for --master-addr and
    # --node-rank: get_rdzv_endpoint in torch/distributed/run.py of PyTorch 2.13.
    if where := command.known.get("rdzv-endpoint"):
        unknown = "a run does not know the names of its nodes before it starts"
        why = "each node would wait for itself" if _THIS_NODE.fullmatch(where) else unknown
        yield _wrong(f"--rdzv-endpoint={where}: {why}", f"leave --rdzv-endpoint out: {_TOLD}")
    if command.known.get("rdzv-backend") != "static":
        return
    rank = command.options.get("node-rank")
    if rank is None or command.known.get("node-rank") is not None:
        why = f"--rdzv-backend=static: each of the {nodes} nodes would be node {rank or 0}"
        yield _wrong(why, f"leave --rdzv-backend out: {_TOLD}")


def _number_of_nodes(wanted: str, nodes: int) -> Iterator[Conflict]:
    if not (match := re.fullmatch(r"(\d+)(?::(\d+))?", wanted)):
        return
    least, most = int(match[1]), int(match[2] or match[1])
    word = f"--nnodes={wanted}"
    if most < nodes:
        why = _alone(nodes) if most == 1 else f"{most} of the {nodes} nodes would train, and the others would wait"
        yield _wrong(f"{word}: {why}", f"leave --nnodes out: {_TOLD}")
    elif least > nodes:
        number = "1 node" if nodes == 1 else f"{nodes} nodes"
        why = f"{word}: the job has {number}, and torchrun would wait for {least}"
        yield _wrong(why, f"set `nodes: {least}`, or leave --nnodes out: {_TOLD}")


def _of_accelerate(command: LauncherCommand, nodes: int) -> Iterator[Conflict]:
    machines, rank = command.known.get("num-machines"), command.known.get("machine-rank")
    if nodes == 1:
        if machines and machines.isdigit() and int(machines) > 1:
            why = f"--num_machines={machines}: the job has 1 node, and the others would never come"
            yield _wrong(why, f"set `nodes: {machines}`, or leave --num_machines out")
        return
    fix = _TORCHRUN.replace("`torchrun`", "`torchrun` for `accelerate launch`")
    is_known = not command.is_open and "config-file" not in command.options
    if "num-machines" not in command.options:
        why = _alone(nodes) if is_known else "it is not known how many machines there are, and which one this is"
        yield replace(_wrong(f"accelerate launch without --num_machines={nodes}: {why}", fix), is_certain=is_known)
    elif machines == "1":
        yield _wrong(f"--num_machines=1: {_alone(nodes)}", fix)
    elif machines is not None and machines != str(nodes):
        yield _wrong(f"--num_machines={machines}: the job has {nodes} nodes", fix)
    elif rank is not None or ("machine-rank" not in command.options and is_known):
        why = f"each of the {nodes} nodes would be machine {rank or 0}"
        yield _wrong(f"accelerate launch: {why}", fix)


def _of_deepspeed(command: LauncherCommand, nodes: int) -> Iterator[Conflict]:
    if nodes > 1 and "no-ssh" not in command.options:
        why = f"deepspeed: each of the {nodes} nodes would start ranks on all nodes of its host file, or train alone"
        yield _wrong(why, _TORCHRUN)
    wanted = command.known.get("num-nodes")
    if nodes == 1 and wanted and wanted.isdigit() and int(wanted) > 1:
        yield _wrong(f"--num_nodes={wanted}: the job has 1 node", f"set `nodes: {wanted}`, or leave --num_nodes out")


def _processes(command: LauncherCommand, option: str, word: str, ranks: int | None) -> Iterator[Conflict]:
    wanted = command.known.get(option)
    if ranks is None or wanted is None or not wanted.isdigit() or int(wanted) == ranks:
        return
    fix = f"leave {word} out: the launcher starts a rank for each accelerator"
    if int(wanted) > ranks:
        yield _wrong(f"{word}={wanted}: the node has {ranks} accelerators", fix)
    else:
        why = f"{word}={wanted}: the node has {ranks} accelerators, and {ranks - int(wanted)} would be idle"
        yield replace(_wrong(why, fix), is_certain=False)


def _python_alone(key: tuple[str, ...], nodes: int, ranks: int | None) -> Iterator[Conflict]:
    if nodes == 1 and (ranks is None or ranks == 1):
        return
    one = f"one process starts on each of the {nodes} nodes" if nodes > 1 else "one process starts"
    idle = f", which has {ranks} accelerators" if ranks and ranks > 1 else ""
    fix = "write `torchrun` for `python`, or add `ranks: per-gpu`, unless the program starts its ranks itself"
    yield Conflict(key, f"python: {one}{idle}", fix, is_certain=False)


def _alone(nodes: int) -> str:
    return f"each of the {nodes} nodes would train alone, with a rank 0 of its own"


def _wrong(why: str, fix: str) -> Conflict:
    return Conflict((), why, fix)


def _taken_away(environment: Mapping[str, str], allowed: Collection[str], ranks: int | None) -> dict[str, str]:
    """Return what each variable takes away, by its name. Variables in `allowed` are left out.

    `ranks` is the number of accelerators of a node, or None if it is not known.
    """
    return {
        name: _TAKEN[name]
        for name, value in environment.items()
        if name in _TAKEN and name not in allowed and not _is_harmless(name, value.strip().lower(), ranks)
    }


def _is_harmless(name: str, value: str, ranks: int | None) -> bool:
    if name.endswith("_VISIBLE_DEVICES"):
        # All GPUs of a node. Most types with several have eight.
        return value == "all" or set(value.replace(" ", "").split(",")) >= set(map(str, range(ranks or 8)))
    return value in _HARMLESS.get(name, ()) or (name.endswith("_DISABLE") and value in ("", "0"))
