"""The log of a program has a bounded size, loses no line that fits, and is read as one log."""

from __future__ import annotations

import json
import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.test_start_program import Started, python
from trainway.explain import evidence_in, evidence_of_run, explain, gather
from trainway.launch.local.watch import handle_of
from trainway.launch.local.watch import logs as local_logs
from trainway.launch.node import log_file
from trainway.launch.node.log_file import NEWEST_FILES, LogFile
from trainway.launch.runs.logs import last_words
from trainway.launch.slurm.evidence import _whole_logs
from trainway.launch.slurm.logs import logs as slurm_logs
from trainway.launch.target.protocol import Handle
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines

FILE = "logs/start-0/program/attempt_0/0/stdout.log"
LINE = re.compile(r"line (\d{4,})$")


def names(run: Path) -> list[str]:
    return sorted(file.name for file in (run / FILE).parent.glob("stdout*.log"))


def numbers(lines: Iterator[str]) -> list[int]:
    """Return the numbers of the lines, without what the starter says."""
    return [int(found[1]) for line in lines if (found := LINE.search(line))]


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with room for ten lines."""
    monkeypatch.setattr(log_file, "FILE_BYTES", 10 * len("line 0000\n"))


def keep(log: LogFile, lines: range) -> None:
    for line in lines:
        assert log.keep(f"line {line:04}\n".encode())


def running(run: Path, **ended: object) -> Handle:
    """Return the handle of a run of this process, which writes its log."""
    handle = handle_of(run)
    record = {"target": "local", "handle": handle, "started": "2026-11-29", "ended": None, **ended}
    (run / "launch.json").write_text(json.dumps(record))
    return handle


def test_a_program_that_prints_for_long_does_not_fill_the_disk(tmp_path: Path) -> None:
    program = "for line in range(5000): print(f'line {line:04}')"
    started = Started(tmp_path, *python(program), TRAINWAY_LOG_FILE_BYTES="4096")
    output, _ = started.process.communicate(timeout=300)
    files = sorted((tmp_path / FILE).parent.glob("stdout*.log"))
    assert sum(file.stat().st_size for file in files) <= (1 + NEWEST_FILES) * 4096 + 200
    assert len(files) == 1 + NEWEST_FILES and files[0].name == "stdout.log"
    first, *newest = (numbers(iter(file.read_text().splitlines())) for file in files)
    assert first == list(range(len(first))), "the first lines stay"
    kept = [line for lines in newest for line in lines]
    assert kept == list(range(kept[0], 5000)) and len(kept) > 2 * 4096 / 10
    assert "trainway: the output continues in stdout_000001.log" in files[0].read_text().splitlines()[-1]
    assert numbers(iter(output.splitlines())) == list(range(5000)), "the output of the node has all lines"


def test_a_run_that_a_program_launches_prints_its_lines(tmp_path: Path) -> None:
    program = "import os; print('TRAINWAY_OUTPUT_KEPT_IN' in os.environ)"
    assert Started(tmp_path, *python(program), TRAINWAY_OUTPUT_KEPT_IN="files").ends()[0] == 0
    assert (tmp_path / FILE).read_text() == "False\n"


@pytest.mark.usefixtures("small_files")
def test_a_follower_reads_across_the_files_without_a_gap_or_a_duplicate(tmp_path: Path) -> None:
    handle, log = running(tmp_path), LogFile(tmp_path / FILE)
    lines, read = local_logs(handle, follow=True), list[int]()
    for begin in range(0, 200, 7):
        keep(log, range(begin, begin + 7))
        while len(read) < begin + 7:
            read += numbers(iter([next(lines)]))
    assert read == list(range(203)) and len(names(tmp_path)) == 1 + NEWEST_FILES
    running(tmp_path, ended="2026-11-29", exit_status=0)
    assert numbers(lines) == []


@pytest.mark.usefixtures("small_files")
def test_a_follower_reads_the_last_lines_of_an_attempt_after_the_next_has_begun(tmp_path: Path) -> None:
    handle, log = running(tmp_path), LogFile(tmp_path / FILE)
    keep(log, range(3))
    lines = local_logs(handle, follow=True)
    assert numbers(iter([next(lines), next(lines), next(lines)])) == [0, 1, 2]
    keep(log, range(3, 5))
    keep(LogFile(tmp_path / FILE.replace("start-0", "start-1")), range(5, 7))
    running(tmp_path, ended="2026-11-29", exit_status=0)
    assert numbers(lines) == [3, 4, 5, 6]
    assert numbers(local_logs(handle, follow=False, wanted=WantedLines(attempt=1))) == list(range(5))


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("tail", [None, 2, 25])
def test_the_last_lines_are_those_of_all_files_together(
    tail: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainway.launch.slurm.cluster.slurm_is_here", lambda: True)
    node = tmp_path / FILE.replace("start-0/", "start-0/n1/")
    for file in (tmp_path / FILE, node):
        keep(LogFile(file), range(32))
    wanted = EVERY_LINE if tail is None else WantedLines(tail=tail)
    # With the line of the starter between the first two files.
    lines = 33 if tail is None else tail
    here = list(local_logs(running(tmp_path), follow=False, wanted=wanted))
    on_slurm = slurm_logs({"directory": str(tmp_path), "job": "7"}, follow=False, wanted=wanted)
    of_node = [line for line in on_slurm if line.startswith("[n1 0]")]
    for read in (here, of_node):
        assert len(read) == lines and numbers(iter(read)) == list(range(32))[-lines:][-len(numbers(iter(read))) :]


@pytest.mark.usefixtures("small_files")
def test_all_lines_after_the_last_ones_are_followed(tmp_path: Path) -> None:
    handle, log = running(tmp_path), LogFile(tmp_path / FILE)
    keep(log, range(5))
    lines = local_logs(handle, follow=True, wanted=WantedLines(tail=2))
    assert numbers(iter([next(lines), next(lines)])) == [3, 4]
    keep(log, range(5, 20))
    running(tmp_path, ended="2026-11-29", exit_status=0)
    assert numbers(lines) == list(range(5, 20))


def test_a_full_disk_neither_stops_the_program_nor_loses_a_line(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).symlink_to("/dev/full")
    program = "for line in range(20_000): print(f'line {line:04}')"
    started = Started(tmp_path, *python(program), TRAINWAY_OUTPUT_KEPT_IN="files")
    output, errors = started.process.communicate(timeout=300)
    assert started.process.returncode == 0 and numbers(iter(output.splitlines())) == list(range(20_000))
    assert errors.count("the log cannot be written") == 1 and "No space left on device" in errors


def test_a_line_is_not_joined_to_a_part_for_which_the_disk_had_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogFile(tmp_path / FILE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # As on a full disk, the first write is of a part, and the next ones fail.
        resource.setrlimit(resource.RLIMIT_FSIZE, (15, hard))
        kept = [log.keep(f"line {line:04}\n".encode()) for line in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    keep(log, range(3, 5))
    assert kept == [True, False, False] and "the log cannot be written" in capsys.readouterr().err
    assert (tmp_path / FILE).read_text() == "line 0000\nline \nline 0003\nline 0004\n"


def test_a_target_keeps_each_line_once(tmp_path: Path) -> None:
    ranks = """
import os, pathlib, sys
print('of the program')
print('[rank0]: an exception of a rank without torchrun')
file = pathlib.Path(os.environ['PET_LOG_DIR'], 'none_x', 'attempt_0', '1', 'stdout.log')
file.parent.mkdir(parents=True)
file.write_text('of a rank\\n')
print('[default1]:of a rank')
print('[default0]:of a rank whose files are elsewhere')
"""
    everything = {
        "of the program",
        "[rank0]: an exception of a rank without torchrun",
        "[default0]:of a rank whose files are elsewhere",
    }
    for where, printed, kept in (
        ("files", set[str](), everything),
        ("console", {*everything, "[default1]:of a rank"}, None),
        ("", {*everything, "[default1]:of a rank"}, everything),
    ):
        run = tmp_path / (where or "both")
        run.mkdir()
        started = Started(run, *python(ranks), TRAINWAY_OUTPUT_KEPT_IN=where)
        output, _ = started.process.communicate(timeout=300)
        assert set(output.splitlines()) == printed
        assert (set((run / FILE).read_text().splitlines()) if (run / FILE).exists() else None) == kept, where


@pytest.mark.usefixtures("small_files")
def test_an_exception_at_the_end_of_a_file_is_explained_and_is_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = running(tmp_path, ended="2026-11-29", exit_status=1)
    assert handle
    log = LogFile(tmp_path / FILE.replace("stdout", "stderr"))
    keep(log, range(45))
    words = (
        "Traceback (most recent call last):",
        '  File "train.py", line 1, in <module>',
        "  File x",
        "KeyError: 'x'",
    )
    for word in words:
        assert log.keep(f"{word}\n".encode())
    texts = {file.name: file.read_text() for file in (tmp_path / FILE).parent.glob("stderr*.log")}
    assert len(texts) > 2 and not any(all(word in text for word in words) for text in texts.values())
    assert last_words(tmp_path) == "KeyError: 'x'"
    for evidence in (evidence_of_run(tmp_path), evidence_in(tmp_path / "logs")):
        (found,) = (each for each in evidence.logs if "program" in each.name)
        assert numbers(iter(found.text.splitlines())) == [*range(10), *range(found_from(found.text), 45)]
        assert explain(evidence)[0].quote.text == "KeyError: 'x'"
    ((path, text),) = _whole_logs({f"start-0/n1/program/attempt_0/0/{name}": each for name, each in texts.items()})
    assert all(word in text for word in words) and path.endswith(max(texts))
    monkeypatch.setattr(gather, "MOST_BYTES", 50)
    monkeypatch.setattr(gather, "_LEAST_BYTES", 50)
    assert evidence_in(tmp_path / "logs").logs[0].text.endswith("  File x\nKeyError: 'x'\n")


def found_from(text: str) -> int:
    """Return the number of the first line that is kept after the first file."""
    return numbers(iter(text.splitlines()))[10]


def test_the_last_update_of_a_bar_is_in_the_log_while_the_step_runs(tmp_path: Path) -> None:
    bar = "Training:  50%|█████     | 5/10 [00:01<00:01,  1.00s/it]"
    program = f"""
import os, sys, time
sys.stdout.write('\\r{bar}')
sys.stdout.flush()
for _ in range(200):
    if os.path.exists('seen'):
        break
    time.sleep(0.1)
print('\\nseen' if os.path.exists('seen') else '\\nunseen')
"""
    started = Started(tmp_path, *python(program))
    assert started.process.stdout is not None
    assert started.process.stdout.readline() == f"{bar}\n"
    (tmp_path / "seen").touch()
    output, _ = started.process.communicate(timeout=300)
    assert output == "seen\n", "the update came before the next step, and once"
