"""Find where a program continued after an error. Earlier log lines do not explain how the program ended.

A batch size that was halved, a request that was repeated, a worker that was started again: each leaves lines that
look like those of a failure. What tells them apart is what follows: the program makes further steps, or says that
it is done. A process that ended says neither, although lines that it had buffered, its loggers, and other ranks may
follow. After its end, only steps that were made before count: they are those of a process that began again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from trainway.explain.evidence import Log
from trainway.explain.log_line_at import bare, line_around

# A step of training, with its number: of Trainway's job, torchtitan, DeepSpeed and Megatron, transformers, and tqdm.
_STEP = re.compile(
    r"(?:\b|\x1b\[\d+m)(?:global_)?step[ =:\[\"']{1,4}(?P<step>\d+)"
    r"|\biter(?:ation)?s?[ =:\[]{1,3}\s*(?P<iteration>\d+)"
    r"|\b[Ee]poch[ =:\[]{1,3}(?P<epoch>\d+(?:\.\d+)?)"
    r"|[|:] *(?P<done>\d+)/\d+ \[[\d:]+<"
    r"|\[ *(?P<batch>\d+)/\d+ +\( *\d+%\)"
    r"|['\"]epoch['\"]: (?P<of_trainer>\d+\.\d+)"
)


@dataclass(frozen=True)
class _Message:
    """A pattern for single lines, and words. Every match contains at least one of the words.

    Searching the words costs a hundredth of matching the pattern.
    """

    pattern: re.Pattern[str]
    words: tuple[str, ...]

    def last(self, text: str, *, but: re.Pattern[str], after: int = 0) -> int | None:
        """Return the start of the last line that matches after a position, or None. Skip lines that match `but`."""
        positions = {word: text.rfind(word, after) for word in self.words}
        while (found := max(positions.values())) >= 0:
            start, stop = line_around(text, found)
            if self.pattern.search(text, max(start, after), stop) and not but.search(bare(text[start:stop])):
                return start
            for word, position in positions.items():
                if position >= start:
                    positions[word] = text.rfind(word, after, max(start, after))
        return None


# Messages of programs that succeeded.
_DONE = _Message(
    re.compile(
        r"(?i)\b(?:train(?:ing)?|fine-?tuning|run|job|fit|evaluation)\b[^\n]{0,24}"
        r"\b(?:completed?|finished|done|succeeded|successful(?:ly)?)\b(?! with)"
        r"|`Trainer\.fit` stopped: `max_|'train_runtime': |\bSUCCEEDED\b|\bCOMPLETED\b"
        r"|exit(?:ed)?(?: with)? (?:code|status):? 0\b|\bmessages? above can be (?:safely )?ignored"
    ),
    (
        *("omplete", "OMPLETE", "inished", "INISHED", "done", "Done", "DONE", "uccee", "UCCEE", "uccess", "UCCESS"),
        *("stopped: `max_", "train_runtime", "xit", "XIT", "ignored"),
    ),
)
_NOT_DONE = re.compile(
    r"(?i)^(?!.*above can be (?:safely )?ignored)"
    r".*\b(?:not|n't|never|before|until|unsuccessful(?:ly)?|unfinished|incomplete(?:ly)?|fail\w*|error|wait\w*)\b"
)
# Errors. Messages of `_UNTIDY`, which a program that succeeded can print while it exits, are no errors.
_FAILED = _Message(
    re.compile(
        r"Traceback \(most recent call last\)|Error\b|\bERROR\b|\bFATAL\b|\bFatal\b|exitcode *:|\bKilled\b"
        r"|core dumped|CANCELLED|Segmentation fault|\bSIG(?:KILL|TERM|SEGV|ABRT|BUS)\b"
        r"|[Ee]xit(?:ed)?(?: with)?(?: exit)? (?:code|status):? [1-9]"
        r"|\berror:|Watchdog caught|NCCL WARN"
    ),
    (
        *("Traceback (", "Error", "ERROR", "FATAL", "Fatal", "exitcode", "Killed", "core dumped", "CANCELLED"),
        *("Segmentation", "SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS", "xit", "error:", "Watchdog", "NCCL W"),
    ),
)
_UNTIDY = re.compile(
    r"Exception ignored in|resource_tracker|destroy_process_group|leaked semaphore|Broken pipe|sys\.excepthook"
)


# The end of a process: a traceback from its first line, what srun says of a task, and what Slurm does to a job.
_ENDED = re.compile(
    r"Traceback \(most recent call last\):[^\n]*\n[^\n]*File [^\n]*, in (?:<module>|_run_module_as_main)"
    r"|srun: error: [^\n]*(?:Exited with exit code|Killed|Segmentation fault|Bus error)"
    r"|line \d+: [^\n]*(?:command not found|No such file or directory)"
    r"|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)"
)
# The last line of a traceback. A library can print the traceback of an optional import, and continue.
_EXCEPTION = re.compile(r"^[^\n]{0,60}?\b(?P<name>\w+(?:Error|Exception|Interrupt|Exit))(?::|$)", re.MULTILINE)
_TRACEBACK_OR_EXIT = re.compile(
    r"Traceback \(most recent call last\)|[Ee]xit(?:ed)?(?: with)?(?: exit)? (?:code|status):? [1-9]|exitcode *: [1-9-]"
    r"|\bfatal\b|\bFATAL\b|core dumped|[Jj]ob (?:submission )?failed|CANCELLED|Aborted"
)
_OPTIONAL = frozenset({"ImportError", "ModuleNotFoundError"})
_LONGEST_TRACEBACK = 20_000
_NEAR_THE_END = 2**16


def without_overcome(logs: Sequence[Log]) -> tuple[Log, ...]:
    """Return each log without the lines before its program continued. Line numbers stay the same.

    A process that wrote that it is done has overcome what it wrote to its other stream, unless that tells of its end.
    """
    done = {_process(log) for log in logs if _is_done(log.text)}
    return tuple(_emptied(log) if _has_overcome(log, done) else since_trouble(log) for log in logs)


def _has_overcome(log: Log, done: Set[tuple[str, int | None]]) -> bool:
    return _process(log) in done and not _is_done(log.text) and _last_end(log.text) is None


def _process(log: Log) -> tuple[str, int | None]:
    """Return a key of the process that wrote a log. The logs of stdout and stderr have the same key."""
    return re.sub(r"std(?:out|err)(?=\.log$)|\.(?:out|err)$", "", log.name), log.attempt


def _is_done(text: str) -> bool:
    failed = _FAILED.last(text, but=_UNTIDY)
    after = 0 if failed is None else line_around(text, failed)[1]
    return _last_end(text) is None and _DONE.last(text, but=_NOT_DONE, after=after) is not None


def _emptied(log: Log) -> Log:
    return replace(log, text="\n" * log.text.count("\n"))


def since_trouble(log: Log) -> Log:
    """Return the log without the lines before its program continued. Line numbers stay the same.

    One step after a failure is not enough: where ranks share a log, others end the step in which one failed.
    """
    text = log.text
    failed = _FAILED.last(text, but=_UNTIDY)
    after = 0 if failed is None else line_around(text, failed)[1]
    ended = _last_end(text)
    steps = _last_steps(text, after)
    if ended is not None and not (steps and _began_again(text, ended)):
        return log
    done = _DONE.last(text, but=_NOT_DONE, after=after) if ended is None else None
    positions = [each for each in (steps[0].start() if steps else None, done) if each is not None]
    if not positions:
        return log
    start, _ = line_around(text, max(positions))
    return replace(log, text="\n" * text.count("\n", 0, start) + text[start:])


def has_steps(text: str) -> bool:
    """Return whether a log reports training steps."""
    return _STEP.search(text) is not None


def has_ended(text: str) -> bool:
    """Return whether a traceback, a launcher, or a scheduler reports in a log that a process ended."""
    return _last_end(text) is not None or _TRACEBACK_OR_EXIT.search(text) is not None


def _last_steps(text: str, after: int) -> tuple[re.Match[str], re.Match[str]] | None:
    """Return the matches of the last two different step numbers of one counter after a position, or None."""
    return next(filter(None, (_last_steps_from(text, start) for start in _starts(text, after))), None)


def _starts(text: str, after: int) -> Iterator[int]:
    """Yield positions from which to search for a last match: first near the end of the text, then `after`."""
    if len(text) - _NEAR_THE_END > after:
        yield text.rfind("\n", 0, len(text) - _NEAR_THE_END) + 1
    yield after


def _last_steps_from(text: str, after: int) -> tuple[re.Match[str], re.Match[str]] | None:
    shown = dict[str, list[re.Match[str]]]()
    for found in _STEP.finditer(text, after):
        steps = shown.setdefault(str(found.lastgroup), [])
        if not steps or _number(steps[-1]) != _number(found):
            steps.append(found)
    pairs = [(steps[-2], steps[-1]) for steps in shown.values() if len(steps) > 1]
    return max(pairs, key=lambda pair: pair[1].start(), default=None)


def _began_again(text: str, ended: int) -> bool:
    """Return whether the first step after the end of a process is one before the last. Then a new process runs."""
    first = _STEP.search(text, ended)
    if first is None:
        return False
    before = [found for found in _STEP.finditer(text, 0, ended) if found.lastgroup == first.lastgroup]
    if not before or _number(first) > _number(before[-1]):
        return False
    # A progress bar shows its step again after a signal. A process that began again makes more than the next step.
    after = {_number(found) for found in _STEP.finditer(text, ended) if found.lastgroup == first.lastgroup}
    return _number(first) < _number(before[-1]) or len(after) > 2


def _number(found: re.Match[str]) -> float:
    return float(found[str(found.lastgroup)])


def _last_end(text: str) -> int | None:
    """Return the position after the last match that reports the end of a process, or None."""
    last = None
    for found in _ENDED.finditer(text):
        rest = text[found.end() : found.end() + _LONGEST_TRACEBACK]
        raised = _EXCEPTION.search(rest) if found[0].startswith("Traceback") else None
        if not (raised and raised["name"] in _OPTIONAL):
            last = found.end()
    return last
