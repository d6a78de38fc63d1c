"""The launchers in a command or in the text of a shell script, with their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import PurePosixPath

# The options of torchrun without a value: get_args_parser in torch/distributed/run.py of PyTorch 2.13.
_TORCHRUN_FLAGS = ("help", "standalone", "module", "no-python", "run-path", "virtual-local-rank")
TORCHRUN_OPTIONS = (
    *_TORCHRUN_FLAGS,
    *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts"),
    *("monitor-interval", "start-method", "event-log-handler", "role", "log-dir", "redirects", "tee"),
    *("local-ranks-filter", "duplicate-stdout-filters", "duplicate-stderr-filters", "node-rank", "master-addr"),
    *("master-port", "local-addr", "logs-specs", "numa-binding", "signals-to-handle", "shutdown-timeout"),
)
"""The long options of torchrun, with hyphens. Each can be written with underscores, and its beginning is enough."""
# Options without a value: accelerate/commands/launch.py of Accelerate 1.14, and deepspeed/launcher/runner.py of
# DeepSpeed 0.19.8 (read 2026-11-29).
_ACCELERATE_FLAGS = (
    *("quiet", "cpu", "multi-gpu", "tpu", "enable-cpu-affinity", "use-deepspeed", "use-fsdp", "use-megatron-lm"),
    *("use-parallelism-config", "same-network", "module", "no-python", "tpu-cluster", "no-tpu-cluster", "tpu-use-sudo"),
    *("downcast-bf16", "debug", "dynamo-use-fullgraph", "dynamo-use-dynamic", "dynamo-use-regional-compilation"),
    *("fp8-use-autocast-during-eval", "help"),
)
_DEEPSPEED_FLAGS = (
    *("module", "no-python", "no-local-rank", "no-ssh", "no-ssh-check", "force-multi", "save-pid", "quiet"),
    *("bind-cores-to-rank", "help"),
)
_SHORT = {"m": "module", "r": "redirects", "t": "tee", "h": "help", "n": "np", "c": "np", "q": "quiet", "H": "hostfile"}
_FLAGS: Mapping[str, Sequence[str]] = {
    # torch.distributed.launch has one more.
    "torchrun": (*_TORCHRUN_FLAGS, "use-env"),
    "accelerate": _ACCELERATE_FLAGS,
    "deepspeed": _DEEPSPEED_FLAGS,
}
_NAMES = {
    "torchrun": "torchrun",
    "deepspeed": "deepspeed",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "horovodrun": "horovodrun",
    "colossalai": "colossalai",
    "srun": "srun",
}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "training.elastic": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_PYTHON = re.compile(r"python[0-9.]*")
_SHELLS = ("bash", "sh")
_BRANCHES = {"if", "then", "else", "elif", "fi", "case", "esac", "for", "while", "until", "do", "done", "function", "{"}
_OPENING, _CLOSING = ("if", "case", "for", "while", "until", "{"), ("fi", "esac", "done", "}")
_PREFIXES = ("exec", "export", "local", "declare", "time", "!")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^{}$`]*))?\}|([A-Za-z_]\w*|\d))", re.ASCII)
# The text between a line with `<<WORD` and the line WORD, which is no command.
_HERE_DOCUMENT = re.compile(r"((?<!<)<<(?!<)-?\s*(['\"]?)(\w+)\2[^\n]*\n)(?:.*\n)*?\s*\3[ \t]*(?=\n|$)")
# Lines of one quoted word. A quotation mark of other text is alone, and has no partner.
_LONGEST_WORD = 200
# What only a shell knows, from the inside out. A node that asks for its own name gets that of itself.
_HOSTNAME = re.compile(r"\$\(hostname[^()]*\)|`hostname[^`]*`")
_SUBSTITUTION = re.compile(r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`|(?<=\$\()\([^()]*\)")


@dataclass(frozen=True)
class LauncherCommand:
    """A launcher, its options by their long names with hyphens, and the words of the program that it starts.

    The value of an option without a value is None, and that of an option whose value only a shell knows has a `$`. With
    `is_open`, only a shell knows further options. A command that `may_not_run` is in a branch of a script.
    """

    launcher: str
    options: Mapping[str, str | None]
    program: tuple[str, ...]
    is_open: bool = False
    may_not_run: bool = False
    known: Mapping[str, str] = field(init=False)
    """The options whose values do not depend on a shell."""

    def __post_init__(self) -> None:
        """Choose the options whose values are known."""
        given = {name: value for name, value in self.options.items() if value is not None}
        known = {name: value for name, value in given.items() if "$" not in value and "`" not in value}
        object.__setattr__(self, "known", known)


def launchers_of_command(words: Sequence[str]) -> list[LauncherCommand]:
    """Return the launcher that a command of these words starts, or nothing if it starts none.

    Python without a launcher has the name `python`. Words before the launcher, such as `env A=1` or `nsys profile`, do
    not matter.
    """
    for at, word in enumerate(words):
        name = PurePosixPath(word).name
        if name in _SHELLS and list(words[at + 1 : at + 2]) == ["-c"]:
            return list(read_script(words[at + 2]).commands) if len(words) > at + 2 else []
        if name == "accelerate" and list(words[at + 1 : at + 2]) == ["launch"]:
            return [_read("accelerate", words[at + 2 :])]
        if name in _NAMES:
            return [_read(_NAMES[name], words[at + 1 :])]
        if _PYTHON.fullmatch(name):
            return [_of_python(words[at + 1 :])]
        if name.endswith(".py"):
            return []
    return []


@dataclass(frozen=True)
class Script:
    """What a script for bash starts, and the variables that it sets for programs outside of branches."""

    commands: tuple[LauncherCommand, ...]
    exported: Mapping[str, str]


def read_script(text: str, environment: Mapping[str, str] | None = None) -> Script:
    """Read the launchers and the exported variables of a script. Values of variables that it sets once are known.

    `environment` has the variables of the program, and the words of the script by their numbers. Words that no shell
    can read are left out.
    """
    variables: dict[str, str | None] = dict(environment or {})
    found, exported, depth = list[LauncherCommand](), dict[str, str](), 0
    for words in _commands(text):
        is_branch, is_export = words[0] in _BRANCHES, words[0] == "export"
        depth += (words[0] in _OPENING) - (words[0] in _CLOSING)
        while words and (words[0] in _BRANCHES or words[0] in _PREFIXES):
            words = words[1:]
        told = dict[str, str]()
        while words and (match := _ASSIGNMENT.fullmatch(words[0])):
            told[match[1]] = match[2]
            # A second value, or one of a branch, could be another one.
            is_new = match[1] not in variables and not depth
            value = _expanded(match[2], variables)
            variables[match[1]] = value if is_new and "$" not in value else None
            words = words[1:]
        started = launchers_of_command([_expanded(word, variables) for word in words])
        found += [replace(each, may_not_run=each.may_not_run or depth > 0 or is_branch) for each in started]
        if not depth and (is_export or started):
            exported |= told
    return Script(tuple(found), exported)


def script_of(words: Sequence[str]) -> str | None:
    """Return the file of a command such as `bash FILE`, or None for another command."""
    for at, word in enumerate(words):
        if PurePosixPath(word).name in _SHELLS:
            files = [each for each in words[at + 1 :] if not each.startswith("-")]
            return None if "-c" in words[at + 1 :][:1] else next(iter(files), None)
        if word.endswith(".sh"):
            return word
        if not (word == "env" or _ASSIGNMENT.fullmatch(word) or word in ("exec", "nohup")):
            return None
    return None


def _of_python(words: Sequence[str]) -> LauncherCommand:
    """Return the launcher that Python runs as a module, or Python itself with its script or module."""
    for at, word in enumerate(words):
        if word == "-m" and at + 1 < len(words):
            module = words[at + 1]
            if module == "accelerate.commands.accelerate_cli" and list(words[at + 2 : at + 3]) == ["launch"]:
                return _read("accelerate", words[at + 3 :])
            if module in _MODULES:
                return _read(_MODULES[module], words[at + 2 :])
            return LauncherCommand("python", {}, tuple(words[at:]))
        if word == "-c" or not word.startswith("-"):
            return LauncherCommand("python", {}, tuple(words[at:]))
        if word in ("-W", "-X"):
            continue
    return LauncherCommand("python", {}, ())


def _read(launcher: str, words: Sequence[str]) -> LauncherCommand:
    """Return a launcher with its options, which end at the first word that is neither an option nor its value."""
    options, at = dict[str, str | None](), 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        name, equals, value = words[at].lstrip("-").partition("=")
        name = _long_name(launcher, words[at], name)
        at += 1
        if equals:
            options[name] = value
        elif name in _FLAGS.get(launcher, ()) or (launcher in ("mpirun", "srun") and at == len(words)):
            options[name] = None
        elif at < len(words):
            options[name] = words[at]
            at += 1
        else:
            options[name] = None
    # A word such as `$ARGUMENTS` before the program can be any number of options.
    return LauncherCommand(launcher, options, tuple(words[at:]), is_open="".join(words[at : at + 1])[:1] in ("$", "`"))


def _long_name(launcher: str, word: str, name: str) -> str:
    if not word.startswith("--"):
        return _SHORT.get(name, name)
    name = name.replace("_", "-")
    if launcher == "torchrun" and name not in TORCHRUN_OPTIONS:
        begun = [each for each in TORCHRUN_OPTIONS if each.startswith(name)]
        return begun[0] if len(begun) == 1 else name
    return name


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a script. A line that cannot be read yields nothing."""
    text, before = _HOSTNAME.sub("localhost", _HERE_DOCUMENT.sub(r"\1", text).replace("\\\n", " ")), ""
    while text != before:
        before, text = text, _SUBSTITUTION.sub("$_", text)
    lines, at = text.splitlines(), 0
    while at < len(lines):
        # A word in quotation marks can have several lines.
        for end in range(at + 1, min(at + _LONGEST_WORD, len(lines)) + 1):
            words = _words("\n".join(lines[at:end]))
            if words is not None:
                at = end
                break
        else:
            at, words = at + 1, []
        for is_between, command in groupby(words, key=lambda word: bool(word) and not word.strip(";&|()")):
            if not is_between:
                yield list(command)


def _words(lines: str) -> list[str] | None:
    """Return the words of some lines, or None if a quotation mark has no partner."""
    lexer = shlex.shlex(lines, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        return list(lexer)
    except ValueError:
        return None


def _expanded(word: str, variables: Mapping[str, str | None]) -> str:
    """Return a word with the values of the variables that are known. `${A:-b}` is `b` if nothing sets A."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if (known := variables.get(name)) is not None:
            return known
        is_told = name in variables or re.match(r"(TRAINWAY|PET|SLURM|OMPI|PMI|MASTER|WORLD|RANK|LOCAL|NODE)", name)
        return match[0] if is_told or match[2] is None else match[2]

    return _VARIABLE.sub(value, word)
