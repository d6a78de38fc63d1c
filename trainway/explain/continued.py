"""Where a program continued after trouble: what its log has before is overcome, and is no cause of how it ended.

A batch size that was halved, a request that was repeated, a worker that was started again: each leaves lines that
look like those of a failure. What tells them apart is what follows: the program makes further steps, or says that
it is done.
"""

from __future__ import annotations

import re
from dataclasses import replace

from trainway.explain.evidence import Log
from trainway.explain.log_line_at import bare, line_around

# A step of training, with its number: of Trainway's job, torchtitan, DeepSpeed and Megatron, transformers, and tqdm.
_STEP = re.compile(
    r"\b(?:global_)?step[ =:\[\"']{1,4}(?P<step>\d+)"
    r"|\biter(?:ation)?s?[ =:\[]{1,3}\s*(?P<iteration>\d+)"
    r"|\b[Ee]poch[ =:\[]{1,3}(?P<epoch>\d+(?:\.\d+)?)"
    r"|[|:] *(?P<done>\d+)/\d+ \[\d+:\d+<"
    r"|['\"]epoch['\"]: (?P<of_trainer>\d+\.\d+)"
)
# The end of a program that did what it was to do.
_DONE = re.compile(
    r"(?i)\b(?:train(?:ing)?|fine-?tuning|run|job|fit|evaluation)\b[^\n]{0,24}"
    r"\b(?:completed?|finished|done|succeeded|successful(?:ly)?)\b(?! with)"
    r"|`Trainer\.fit` stopped: `max_|'train_runtime': |\bSUCCEEDED\b|\bCOMPLETED\b"
    r"|exit(?:ed)?(?: with)? (?:code|status):? 0\b"
)
_NOT_DONE = re.compile(
    r"(?i)\b(?:not|n't|never|before|until|unsuccessful(?:ly)?|unfinished|incomplete(?:ly)?|fail\w*|error|wait\w*)\b"
)
# A failure that nothing follows. What a program that succeeded says while it goes down is none.
_FAILED = re.compile(
    r"Traceback \(most recent call last\)|Error\b|\bERROR\b|\bFATAL\b|\bFatal\b|exitcode *:|\bKilled\b|core dumped"
    r"|CANCELLED|Segmentation fault|\bSIG(?:KILL|TERM|SEGV|ABRT|BUS)\b"
    r"|exit(?:ed)? (?:with )?(?:exit )?(?:code|status) [1-9]"
    r"|\berror:|Watchdog caught|NCCL WARN"
)
_UNTIDY = re.compile(
    r"Exception ignored in|resource_tracker|destroy_process_group|leaked semaphore|Broken pipe|sys\.excepthook"
)


def since_trouble(log: Log) -> Log:
    """Return the log from its last step, if no failure follows, or from the word that it is done. Lines keep numbers.

    One step after a failure is not enough: where ranks share a log, others end the step in which one failed.
    """
    failed = _last(_FAILED, log.text, but=_UNTIDY)
    after = 0 if failed is None else line_around(log.text, failed)[1]
    steps = list(_STEP.finditer(log.text, after))
    done = _last(_DONE, log.text, but=_NOT_DONE, after=after)
    continued = failed is None or len({next(filter(None, found.groups())) for found in steps}) > 1
    last = max([found.start() for found in steps] if continued else [], default=None)
    positions = [each for each in (last, done) if each is not None]
    if not positions:
        return log
    start, _ = line_around(log.text, max(positions))
    return replace(log, text="\n" * log.text.count("\n", 0, start) + log.text[start:])


def _last(pattern: re.Pattern[str], text: str, *, but: re.Pattern[str], after: int = 0) -> int | None:
    """Return the position of the last match after a position in a line that does not match `but`."""
    last = None
    for found in pattern.finditer(text, after):
        start, end = line_around(text, found.start())
        if not but.search(bare(text[start:end])):
            last = found.start()
    return last
