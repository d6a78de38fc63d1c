"""Of a run that failed, one line of one rank says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.launch.runs.logs import last_words

BAR = "  0%|          | 0/40 [00:00<?, ?it/s]\r 5%|5         | 2/40 [00:01<00:19,  1.9it/s]"
RAISED = "Traceback (most recent call last):\n[rank1]:   File 'x.py'\n[rank1]: ValueError: no padding token"


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ((BAR, RAISED), "ValueError: no padding token"),
        (("a warning\n" + BAR, "killed\n"), "a warning"),
        ((RAISED, "torch.OutOfMemoryError: CUDA out of memory. Tried to"), "ValueError: no padding token"),
        (("left with SystemExit\n", "pkg.errors.WorkerTimeout"), "pkg.errors.WorkerTimeout"),
        (("", BAR), None),
    ],
)
def test_the_rank_that_raised_an_exception_says_why(ranks: tuple[str, ...], why: str | None, tmp_path: Path) -> None:
    for rank, text in enumerate(ranks):
        log = tmp_path / "logs/start-0/run/attempt_0" / str(rank) / "stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
    assert last_words(tmp_path) == why
