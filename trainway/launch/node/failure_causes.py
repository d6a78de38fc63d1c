"""Causes of a failure that a program prints, in a sentence each, and whether another attempt can succeed.

The launcher sends this file to the nodes beside the starter, which imports it. It requires Python 3.9 and nothing else.
"""

import re
from pathlib import Path

# A program that ran out of memory after this time can resume from a checkpoint. Before that, it does so again.
SECONDS_OF_A_START = 600
# What Python, PyTorch, and NVIDIA's libraries print. What else a line says differs between their releases.
_CAUSES = (
    (re.compile(r"(?:No space left on device|Disk quota exceeded)(?:: '([^']+)')?"), "disk"),
    (re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"), "package"),
    # https://docs.python.org/3/library/argparse.html#exiting-methods (read 2026-11-29)
    (
        re.compile(r"^\S+: error: ((?:unrecognized arguments|the following arguments are required|argument \S+): .+)"),
        "options",
    ),
    # Click 8.5 with the frame of Typer, Abseil 2.5, and transformers 5.18: click/exceptions.py, absl/app.py, and
    # transformers/hf_argparser.py (read 2026-11-29).
    (
        re.compile(
            r"^(?:Error: |│ )((?:No such option|Missing option|Missing argument|Invalid value for|Got unexpected extra "
            r"argument).*?)\s*│?$"
        ),
        "options",
    ),
    (re.compile(r"^FATAL (Flags parsing error:.*)"), "options"),
    (
        re.compile(r"^ValueError: (Some (?:specified arguments|keys) are not used by the HfArgumentParser: .+)"),
        "options",
    ),
    # Exceptions of Python that another attempt raises at the same place.
    (re.compile(r"^((?:SyntaxError|IndentationError|TabError|NameError|UnboundLocalError): .+)"), "code"),
    (re.compile(r"^(ImportError: cannot import name .+)"), "code"),
    (re.compile(r"^(AttributeError: (?:partially initialized )?module '[\w.]+' has no attribute .+)"), "code"),
    (
        re.compile(
            r"^(TypeError: \S+ (?:got an unexpected keyword argument|missing \d+ required|takes .+ w\w+ given).*)"
        ),
        "code",
    ),
    (re.compile(r"OutOfMemoryError: (CUDA out of memory\.(?: Tried to allocate [\d.]+ \w+)?)"), "memory"),
    # `ray symmetric-run` on the node of the driver. Other nodes print it, too, when the first one ends Ray. They did
    # not join if they print one of the other two: the driver then waits for them.
    # https://github.com/ray-project/ray/blob/ray-2.60.0/python/ray/scripts/symmetric_run.py
    # https://github.com/ray-project/ray/blob/ray-2.60.0/python/ray/_private/node.py (read 2026-11-23)
    (re.compile(r"Failed to start Ray: Command '\['ray', 'start', '--head'()"), "ray"),
    (re.compile(r"Exception: The current node timed out during startup\.()"), "ray"),
    (re.compile(r"Exception: No node info found for head node in GCS\.()"), "ray"),
    # `ray start` prints this line about an option that it refuses. `ray symmetric-run` then ends with exit status 0.
    # https://github.com/ray-project/ray/blob/ray-2.60.0/python/ray/autoscaler/_private/cli_logger.py (read 2026-11-26)
    (re.compile(r"PANIC scripts\.py:\d+ -- (.+)"), "ray options"),
)


# A program can continue after these, for example without an optional package, or with smaller batches.
_MAY_CONTINUE = ("disk", "package", "memory", "options", "code")
# A rank that ends by an exception prints little after it, such as the summary of a tracker.
_MOST_LINES_AFTER = 50
# What torchrun and Ray print before a line of a process.
_PROCESS = re.compile(r"^(\[default\d+\]:|\[rank\d+\]:|\([\w.:-]+ pid=[^)]*\))\s?")
# The last line of a traceback, and what native code prints when it ends a process.
_EXCEPTION = re.compile(
    r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)(?::|$)|^terminate called |^Fatal Python error: |^Segmentation fault"
)
# torchrun names the ranks that failed by an exception of its own.
_OF_TORCHRUN = "torch.distributed.elastic."
_HANDLING = "During handling of the above exception, another exception occurred:"
_SAME_CAUSE = "The above exception was the direct cause of the following exception:"


class Causes:
    """The causes in the lines of a program that ended it.

    A line such as `ModuleNotFoundError: …` counts if the process that printed it ended soon after, by no other
    exception.
    """

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._lines: dict[str, int] = {}
        self._ended_by: dict[str, tuple[str, str, int] | None] = {}
        self._chained: set[str] = set()
        self._handling: set[str] = set()

    def read(self, line: str) -> None:
        """Look for a cause in a line."""
        prefix = _PROCESS.match(line)
        process, text = (prefix.group(1), line[prefix.end() :]) if prefix else ("", line)
        self._lines[process] = at = self._lines.get(process, 0) + 1
        if text.strip() == _SAME_CAUSE:
            self._chained.add(process)
            return
        if text.strip() == _HANDLING:
            self._handling.add(process)
            return
        for pattern, kind in _CAUSES:
            if match := pattern.search(text):
                if kind == "code" and process in self._handling:
                    # What the program handled may not happen again.
                    self._ended_by[process] = None
                elif kind in _MAY_CONTINUE:
                    self._ended_by[process] = (kind, match.group(1) or "", at)
                else:
                    self._found.setdefault(kind, match.group(1) or "")
                self._chained.discard(process)
                self._handling.discard(process)
                return
        if _EXCEPTION.match(text) and not text.startswith(_OF_TORCHRUN):
            if process not in self._chained:
                self._ended_by[process] = None
            self._chained.discard(process)
            self._handling.discard(process)

    def _that_ended_it(self) -> "dict[str, str]":
        """Return the detail of each cause, by its kind. That of the first process counts."""
        found = dict(self._found)
        for process, cause in self._ended_by.items():
            if cause is not None and self._lines[process] - cause[2] <= _MOST_LINES_AFTER:
                found.setdefault(cause[0], cause[1])
        return found

    def denies_success(self) -> bool:
        """Return whether the program did not do its work, even if it ends with exit status 0."""
        return "ray" in self._found or "ray options" in self._found

    def sentence(self, seconds: float, killed_for_memory: bool, has_step: bool = False) -> "tuple[str, bool]":
        """Return why the program failed after some seconds, and whether that is for good. Empty without a cause.

        `has_step`: the program has said a step. `killed_for_memory`: the kernel killed a process of the job because it
        used too much memory.
        """
        again, found = seconds < SECONDS_OF_A_START, self._that_ended_it()
        if "disk" in found:
            where = f" for {found['disk']}" if found["disk"] else ""
            return f"no space is left on the disk{where}: delete files, or write to another location", True
        if "package" in found:
            name = found["package"].partition(".")[0]
            return f"the Python package {name} is absent: add the package that has it to run.packages", True
        if "options" in found:
            return f"the program refuses its options: {found['options']}", True
        if "code" in found:
            return f"the code of the program has a mistake: {found['code']}", again and not has_step
        if "memory" in found:
            return f"the GPU is out of memory: {found['memory']}", again
        if "ray options" in found:
            said = found["ray options"].rstrip(".")
            return f"`ray start` refuses its options on this node: {said}. Change the command of the job", True
        if "ray" in found:
            return "Ray cannot start on this node, so the program did not begin: the log says why", False
        if killed_for_memory:
            return "the kernel killed a process, because the job used all memory that it has on the node", again
        return "", False


def processes_killed_for_memory() -> int:
    """Return how many processes of this control group the kernel has killed for memory. 0 where that is not known.

    https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files (read 2026-11-23)
    """
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
        own = next(line[len("0::/") :] for line in text.splitlines() if line.startswith("0::/"))
        events = (Path("/sys/fs/cgroup") / own / "memory.events").read_text(encoding="utf-8")
        return sum(int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
