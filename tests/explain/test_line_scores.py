"""The line that is quoted of an unknown failure is the one that a person would quote."""

from __future__ import annotations

import pytest

from tests.explain.fit_line_scores import fit, quoted_in, share_found, share_found_in_turn, written
from tests.explain.test_symptoms import symptoms
from trainway.explain import Evidence, Log, explain
from trainway.explain.line_scores import FILE, load_signs
from trainway.explain.suspects import suspect_line

LOGS = [quoted_in(each.log, each.says) for each in symptoms("read").values() if each.says and each.says in each.log]


def test_the_weights_are_those_of_the_fit() -> None:
    fitted = fit(LOGS)
    text = FILE.read_text()
    assert written(text, dict(zip(load_signs(), fitted, strict=True))) == text
    assert share_found(LOGS, fitted) >= 0.75


def test_of_logs_that_were_left_out_three_of_four_lines_are_found() -> None:
    assert share_found_in_turn(LOGS) >= 0.74


@pytest.mark.parametrize(
    ("told", "others"),
    [
        ("mesh: cannot read cells.bin: the header is missing", ("srun: error: n1: task 3: Exited with exit code 1",)),
        ("mesh: the cells do not exist: /fsx/cells", ("mesh: failed", "mesh: exit status 3")),
        (
            "ValueError: the mesh has no cells: /fsx/cells.bin is empty",
            ("subprocess.CalledProcessError: Command 'mesh' returned non-zero exit status 1.", "mesh failed"),
        ),
    ],
)
def test_the_line_that_tells_why_is_quoted_rather_than_the_exit_status(told: str, others: tuple[str, ...]) -> None:
    evidence = Evidence((Log("job.out", "\n".join(("step 1", told, *others))),))
    found = explain(evidence)
    quote = found[0].quote if found else suspect_line(evidence)
    assert quote is not None and quote.text == told


def test_lines_of_another_rank_are_not_quoted() -> None:
    frames = ("Traceback (most recent call last):", '  File "/app/a.py", line 3, in step', "MeshError: no cells")
    mine = "".join(f"[rank1]: {line}\n" for line in frames)
    other = "[rank0]: cannot read /fsx/cells.bin: permission denied: fatal\n"
    (found, *_) = explain(Evidence((Log("job.out", mine + other),)))
    assert found.quote.text == frames[-1] and found.quote.rank == 1
