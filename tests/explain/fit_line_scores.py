"""Fit the weights of trainway/explain/line_scores.yaml to the lines that readers quoted as the cause.

    python -m tests.explain.fit_line_scores

The model is a softmax over the lines of each log (a conditional logit). The loss is the negative logarithm of the share
of the quoted lines, plus the squares of the weights. The command writes the weights into the file. It prints the share
of logs in which the quoted line has the highest score: of the logs that were fitted, and of those left out in turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainway.explain.line_scores import FILE, load_signs, signs_of

Matrix = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

DECAY, RATE, STEPS, PARTS = 2e-3, 0.05, 400, 10


@dataclass(frozen=True)
class Quoted:
    """A log: the signs of each line, as rows of zeros and ones, and which lines have the quoted words."""

    signs: Matrix
    is_quoted: Marks


def quoted_in(log: str, says: str) -> Quoted:
    """Return a log for the fit. `says` is part of the quoted line."""
    lines = log.rstrip("\n").split("\n")
    rows = [[float(name in signs) for name in load_signs()] for signs in signs_of(lines)]
    return Quoted(np.array(rows), np.array([says in line for line in lines]))


def fit(logs: Sequence[Quoted]) -> Matrix:
    """Return the weight of each sign, in their order in the file."""
    signs, is_quoted = np.concatenate([log.signs for log in logs]), np.concatenate([log.is_quoted for log in logs])
    lengths = np.array([len(log.signs) for log in logs])
    starts, log_of = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(logs)), lengths)
    weights, mean, square = (np.zeros(signs.shape[1]) for _ in range(3))
    for step in range(1, STEPS + 1):
        scores = signs @ weights
        shares = np.exp(scores - np.maximum.reduceat(scores, starts)[log_of])
        of_all = shares / np.add.reduceat(shares, starts)[log_of]
        of_quoted = shares * is_quoted / np.add.reduceat(shares * is_quoted, starts)[log_of]
        gradient = signs.T @ (of_all - of_quoted) / len(logs) + 2 * DECAY * weights
        # Adam, https://arxiv.org/abs/1412.6980 (read 2026-11-30)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights = weights - RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
    return weights


def share_found(logs: Sequence[Quoted], weights: Matrix) -> float:
    """Return the share of logs in which a line with the quoted words has the highest score."""
    return float(np.mean([log.is_quoted[np.argmax(log.signs @ weights)] for log in logs]))


def share_found_in_turn(logs: Sequence[Quoted]) -> float:
    """Return the same share of logs that were left out of the fit, in ten parts."""
    parts = [
        (logs[part::PARTS], [log for index, log in enumerate(logs) if index % PARTS != part]) for part in range(PARTS)
    ]
    found = [share_found(left_out, fit(others)) * len(left_out) for left_out, others in parts]
    return sum(found) / len(logs)


def written(text: str, weights: Mapping[str, float]) -> str:
    """Return the text of the file with other weights."""
    for name, weight in weights.items():
        text, count = re.subn(rf"(?m)^({name}:(?:\n  | {{)weight: )-?[\d.]+", rf"\g<1>{weight + 0.0:.1f}", text)
        assert count == 1, name
    return text


if __name__ == "__main__":
    from tests.explain.test_symptoms import symptoms

    read = [quoted_in(each.log, each.says) for each in symptoms("read").values() if each.says and each.says in each.log]
    fitted = fit(read)
    FILE.write_text(written(FILE.read_text(), dict(zip(load_signs(), fitted, strict=True))))
    print(f"{len(read)} logs: {share_found(read, fitted):.0%} found, {share_found_in_turn(read):.0%} of those left out")
