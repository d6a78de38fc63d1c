"""The logs of a run on Slurm: a choice of lines, and many files in answers of a limited size."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trainway.launch.slurm.logs import logs
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines
from trainway.spec.errors import UsageError

module = sys.modules["trainway.launch.slurm.logs"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes in bytes of the answers of the cluster, which is this machine."""
    sizes = list[int]()
    ask = module.on_cluster

    def counted(line: str, *arguments: object, **options: object) -> str:
        answer = str(ask(line, *arguments, **options))
        sizes.append(len(answer))
        return answer

    monkeypatch.setattr("trainway.launch.slurm.cluster.slurm_is_here", lambda: True)
    monkeypatch.setattr(module, "on_cluster", counted)
    return sizes


def write(run: Path, start: int, node: str, rank: int, text: str) -> None:
    file = run / f"logs/start-{start}/{node}/7_x/attempt_0/{rank}/stdout.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for start in (0, 1):
        for node in ("n1", "n2"):
            for rank in (0, 1):
                write(tmp_path, start, node, rank, "".join(f"{start} {line}\n" for line in range(5)))
    (tmp_path / "logs/slurm.log").write_text("torchrun begins\n0: [default0]:0 0\n")
    return tmp_path


def read(run: Path, wanted: WantedLines = EVERY_LINE) -> list[str]:
    return list(logs({"directory": str(run), "job": "7"}, follow=False, wanted=wanted))


@pytest.mark.usefixtures("answers")
def test_lines_are_chosen_by_node_rank_attempt_and_from_the_end(run: Path) -> None:
    everything = read(run)
    assert len(everything) == 8 * 5 + 1 and "[slurm] torchrun begins" in everything
    assert read(run, WantedLines(node="n2", rank=1, attempt=2)) == [f"[n2 1] 1 {line}" for line in range(5)]
    assert read(run, WantedLines(rank=0, attempt=1, tail=2)) == ["[n1 0] 0 3", "[n1 0] 0 4", "[n2 0] 0 3", "[n2 0] 0 4"]
    assert read(run, WantedLines(node="n3")) == [] == read(run, WantedLines(attempt=3))
    assert len(read(run, WantedLines(tail=0))) == 0
    assert read(run, WantedLines(node="n[12]")) == [], "a name is no pattern"
    assert read(run, WantedLines(node="n1'; touch /tmp/planted; '")) == [] and not Path("/tmp/planted").exists()


@pytest.mark.usefixtures("answers")
def test_lines_without_times_cannot_be_chosen_by_their_age(run: Path) -> None:
    with pytest.raises(UsageError, match=r"--since\n.*no times into the logs\n.*--tail"):
        read(run, WantedLines(since_seconds=60))


# The cluster starts several programs for each file.
@pytest.mark.parametrize("nodes", [8, pytest.param(64, id="a thousand files", marks=pytest.mark.exhaustive)])
def test_many_files_come_in_answers_of_a_limited_size(
    nodes: int, tmp_path: Path, answers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = nodes * 4 * 1024
    monkeypatch.setattr(module, "_MOST_BYTES_AT_ONCE", most)
    monkeypatch.setattr(module, "_MOST_BYTES", most // 8)
    for node in range(nodes):
        for rank in range(16):
            write(tmp_path, 0, f"n{node}", rank, f"{node} {rank} {'x' * 1000}\n")
    long = [f"long {line}" for line in range(nodes * 300)]
    write(tmp_path, 0, "n0", 16, "".join(f"{line}\n" for line in long))
    lines = read(tmp_path)
    assert len(lines) == len(set(lines)) == nodes * 16 + len(long)
    assert [line for line in lines if line.startswith("[n0 16]")] == [f"[n0 16] {line}" for line in long]
    # Base64 has four bytes for three, and each file its name.
    assert 3 < len(answers) < 30 and max(answers) < 2 * (most + most // 8)
