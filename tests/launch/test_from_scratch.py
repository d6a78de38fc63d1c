"""An attempt that finds no outputs of its run refuses, and `trainway resume --from-scratch` lets it begin anew."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tests.launch.conftest import write_job
from tests.launch.test_start_program import Started
from training.hosts import run_record
from trainway.launch.job_file.programs import load_program, program_of_command
from trainway.launch.local.run import render_local
from trainway.launch.node import outputs_of_run
from trainway.launch.node.exit_statuses import NOT_FOUND, CannotStart
from trainway.launch.node.outputs_of_run import MOST_FILES, check_outputs, check_outputs_of_others, note_outputs
from trainway.launch.program.program import FROM_SCRATCH


def test_the_launcher_and_the_job_name_one_variable() -> None:
    assert run_record.FROM_SCRATCH == outputs_of_run.FROM_SCRATCH == FROM_SCRATCH


@pytest.mark.parametrize("is_bundled", [True, False])
@pytest.mark.parametrize("launch", ["2026-11-29T18:00:00+00:00", None])
def test_only_a_launch_that_may_begin_anew_is_told_so(is_bundled: bool, launch: str | None, tmp_path: Path) -> None:
    data = {"train": str(tmp_path)}
    written = write_job(tmp_path, data=data, checkpoint={"location": str(tmp_path / "ckpt")})
    program = load_program(written) if is_bundled else program_of_command(["true"], tmp_path)
    program = replace(program, from_scratch=launch)
    on_nodes = program.variables("first", PurePosixPath("/fsx/runs/first"), {})
    here = render_local(program, tmp_path / "run", processes=1, hand_off=None).environment
    assert [each.get(FROM_SCRATCH) for each in (on_nodes, here)] == [launch, launch]


SAVES = ("--", "sh", "-c", "mkdir -p $TRAINWAY_OUTPUT/step-4; echo weights >$TRAINWAY_OUTPUT/step-4/model.pt")
FAILS = ("--", "sh", "-c", "exit 3")


def test_a_program_whose_outputs_vanish_is_refused_for_good_and_begins_anew_when_told(tmp_path: Path) -> None:
    assert Started(tmp_path, *FAILS).ends()[0] == 3
    assert Started(tmp_path, *SAVES).ends() == (0, ""), "the attempt before left nothing"
    (tmp_path / "outputs").rename(tmp_path / "moved")
    for _ in range(2):
        status, said = Started(tmp_path, *SAVES).ends()
        assert status == NOT_FOUND
        gone = f"{tmp_path}/outputs: the outputs of the run are gone. Attempt 2 had 1 file, the newest "
        where = f"step-4/model.pt of 8 bytes in {tmp_path}/outputs, and now there is none. Mount or restore them, or "
        otherwise = f"begin anew with `trainway resume {tmp_path.name} --from-scratch`"
        assert f"failed on node 0: {gone}{where}{otherwise}" in said
        assert not (tmp_path / "outputs").exists(), "an empty directory in its place would look as if it were there"
    assert Started(tmp_path, *FAILS, TRAINWAY_FROM_SCRATCH="anew").ends()[0] == 3
    assert Started(tmp_path, *SAVES, TRAINWAY_FROM_SCRATCH="anew").ends()[0] == 0
    assert Started(tmp_path, *SAVES, TRAINWAY_FROM_SCRATCH="anew").ends()[0] == 0, "a restart finds its own outputs"
    shutil.rmtree(tmp_path / "outputs")
    assert "are gone" in Started(tmp_path, *SAVES, TRAINWAY_FROM_SCRATCH="anew").ends()[1]
    (tmp_path / "moved").rename(tmp_path / "outputs")
    assert Started(tmp_path, *FAILS).ends()[0] == 3, "they are there again"
    assert "cannot begin anew" in Started(tmp_path, *SAVES, TRAINWAY_FROM_SCRATCH="again").ends()[1]


def test_a_program_that_is_killed_leaves_what_it_began_with(tmp_path: Path) -> None:
    Started(tmp_path, *SAVES).ends()
    (tmp_path / "attempts/outputs.json").unlink()
    killed = Started(tmp_path, "--", "sh", "-c", "echo begun; exec sleep 3600")
    killed.begins()
    (child,) = Path(f"/proc/{killed.process.pid}/task/{killed.process.pid}/children").read_text().split()
    killed.process.kill()
    os.kill(int(child), signal.SIGKILL)
    shutil.rmtree(tmp_path / "outputs")
    assert "Attempt 2 had 1 file" in Started(tmp_path, *SAVES).ends()[1]


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ("nothing happens", False),
        ("a file is left", False),
        ("all files are deleted", True),
        ("the directory vanishes", True),
        ("the program deletes all files", False),
        ("they vanish while the program runs", True),
        ("the location has another name", True),
        ("they are in a bucket", False),
        ("the record is damaged", False),
    ],
)
def test_only_outputs_that_had_files_are_missed(after: str, refused: bool, tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    (outputs / "step-1").mkdir(parents=True)
    for name in ("a", "step-1/b"):
        (outputs / name).write_text("weights")
    check_outputs(tmp_path, str(outputs), 1)
    match after:
        case "a file is left":
            (outputs / "a").unlink()
        case "all files are deleted" | "the program deletes all files":
            for name in ("a", "step-1/b"):
                (outputs / name).unlink()
        case "the directory vanishes" | "they vanish while the program runs":
            shutil.rmtree(outputs)
        case "the location has another name":
            outputs = tmp_path / "renamed"
        case "the record is damaged":
            (tmp_path / "attempts/outputs.json").write_text("{")
    where = "s3://data/outputs" if after == "they are in a bucket" else str(outputs)
    if "program" in after:
        note_outputs(tmp_path, where, 1)
    # The node that writes down what they have comes last.
    for check in (check_outputs_of_others, check_outputs):
        if not refused:
            check(tmp_path, where, 2)
            continue
        with pytest.raises(CannotStart, match=f"Attempt 1 had 2 files, the newest .* in {tmp_path}/outputs, and now"):
            check(tmp_path, where, 2)


def test_a_node_that_comes_later_does_not_miss_what_the_program_of_the_first_one_deletes(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "model.pt").touch()
    for attempt in (1, 2):
        check_outputs(tmp_path, str(outputs), attempt)
    (outputs / "model.pt").unlink()
    check_outputs_of_others(tmp_path, str(outputs), 2)
    with pytest.raises(CannotStart, match="are gone"):
        check_outputs_of_others(tmp_path, str(outputs), 3)


def test_many_files_are_not_counted_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "outputs/step-1").mkdir(parents=True)
    for number in range(MOST_FILES + 5):
        (tmp_path / f"outputs/step-1/{number}").touch()
    note_outputs(tmp_path, str(tmp_path / "outputs"), 1)
    assert json.loads((tmp_path / "attempts/outputs.json").read_text())["files"] == MOST_FILES
    shutil.rmtree(tmp_path / "outputs")
    with pytest.raises(CannotStart, match="had at least 1000 files"):
        check_outputs(tmp_path, str(tmp_path / "outputs"), 2)
