"""`trainway evaluate`: launch the evaluations of the checkpoints of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from trainway.commands.watching import RunName


def evaluate(
    name: RunName,
    step: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Evaluate only the checkpoint of step N. Default: evaluate every checkpoint that the section "
            "`on_checkpoint` of the job file selects, until the run has ended.",
        ),
    ] = None,
) -> None:
    """Launch the evaluation of each complete checkpoint of a run exactly once.

    The section `on_checkpoint` of the job file specifies the evaluation. The command ends when the run and its
    evaluations have ended. If the command was stopped, start it again. The exit status is 1 if an evaluation failed.
    """
    from trainway.launch.starting.evaluate import evaluate, evaluate_step

    def say(sentence: str) -> None:
        print(sentence, flush=True)

    if exit_status := evaluate(name, say) if step is None else evaluate_step(name, step, say):
        raise typer.Exit(exit_status)
