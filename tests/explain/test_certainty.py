"""Only the last error of a process that ended is certain. Unknown errors are shown with the lines around them."""

from __future__ import annotations

import pytest

from trainway.explain import Confidence, Evidence, Log, as_text, explain

NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def of(text: str) -> Evidence:
    return Evidence((Log("job.out", text),))


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("Traceback (most recent call last):\n  File 'a.py', line 3, in step\n" + NO_MEMORY, Confidence.CERTAIN),
        (NO_MEMORY, Confidence.LIKELY),  # nothing tells that the process ended
        (NO_MEMORY + "srun: error: n1: task 0: Exited with exit code 1\n", Confidence.CERTAIN),
        (
            "Traceback (most recent call last):\n" + NO_MEMORY + "ERROR: the volume of the other job is gone\n",
            Confidence.LIKELY,
        ),
        (NO_MEMORY + "OSError: [Errno 28] No space left on device\n", Confidence.LIKELY),
    ],
)
def test_a_later_error_leaves_a_doubt(text: str, confidence: Confidence) -> None:
    first, *_ = explain(of(text))
    assert (first.name, first.confidence) == ("gpu-memory", confidence)


def test_a_line_that_a_shell_survives_is_less_than_the_error_after_it() -> None:
    first, second = explain(of("a.sh: line 3: module: command not found\nRuntimeError: the mesh has no cells\n"))
    assert first.quote.text == "RuntimeError: the mesh has no cells"
    assert (second.name, second.confidence) == ("command-missing", Confidence.LIKELY)


def test_an_error_that_no_rule_knows_is_shown_with_the_lines_around_it() -> None:
    evidence = of("one\ntwo\nthree\nfour\nRuntimeError: the mesh has no cells\nsix\n")
    text = as_text(explain(evidence), evidence)
    assert "2: two" in text and "5: RuntimeError: the mesh has no cells" in text and "1: one" not in text


def test_without_a_finding_the_line_that_looks_most_like_an_error_is_shown() -> None:
    evidence = of("step 1\nvolume-daemon: could not attach the volume\nbye\n")
    assert explain(evidence) == ()
    text = as_text((), evidence)
    assert "nothing that was gathered tells of a failure (1 log)" in text
    assert "job.out:2" in text and "3: bye" in text
    assert "looks most like an error" not in as_text((), of("step 1\nsaved\n"))


def test_what_other_ranks_say_later_is_no_doubt() -> None:
    at = "[rank{0}]: 2026-11-30 10:00:0{1} ERROR {2}"
    first = Log("rank_0.log", "Traceback (most recent call last):\n" + at.format(0, 1, NO_MEMORY), rank=0)
    for second, confidence in ((2, Confidence.CERTAIN), (0, Confidence.LIKELY)):
        traceback = "Traceback (most recent call last):\n"
        other = Log("rank_1.log", traceback + at.format(1, second, "\nPeerGone: rank 0 sent nothing\n"), rank=1)
        found = {each.name: each.confidence for each in explain(Evidence((first, other)))}
        assert found["gpu-memory"] == confidence
