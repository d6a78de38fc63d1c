"""`trainway emulator` and `demo`: an emulated AWS on this machine, and a platform and a run in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, PlatformFile
from trainway.commands.printing import AsJson
from trainway.commands.progress import working
from trainway.spec.errors import usage_error

app = typer.Typer(help="Run an emulated AWS on this machine.", no_args_is_help=True)


def demo(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    job_file: Annotated[
        Path | None, typer.Option("--job", help="Path of the job file. Default: examples/jobs/tiny.yaml of Trainway.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="Start N ranks on this machine.")] = 2,
    run: Annotated[
        Path | None, typer.Option(help="Directory of the run. Default: the job's name and the time, in runs/.")
    ] = None,
) -> None:
    """Deploy a platform to an emulated AWS, train on this machine with its hand-off, and write the report."""
    from trainway.demo import run_demo
    from trainway.parts.checkout import CHECKOUT

    job_file = job_file or CHECKOUT / "examples/jobs/tiny.yaml"
    run_demo(platform_file, job_file, processes=processes, run=run)


@app.callback()
def prepare_emulator() -> None:
    """Let the commands import the emulator, or say which packages it lacks."""
    from trainway.parts.checkout import make_importable
    from trainway.parts.extras import require_extras

    require_extras("the emulator", "emulator")
    make_importable()


@app.command()
def start(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the emulator. 0 chooses a free port.")] = 0,
    region: Annotated[str, typer.Option(help="Region of the emulated AWS.")] = "us-west-2",
) -> None:
    """Start the emulator in the background, and print the environment that points at it."""
    import emulator
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.spec.kubernetes.publications import publications

    with working("starting the emulator"):
        started = emulator.start(port=port, region=region)
        started.publish(**publications(load_catalogue(), datetime.now(UTC).date()), region=emulator.EVERYWHERE)
    print(f'# emulated AWS at {started.endpoint}, pid {started.pid}; to use it: eval "$(trainway emulator env)"')


@app.command()
def env(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of commands of a shell.")] = False,
) -> None:
    """Print the environment that points a shell at the running emulator."""
    import shlex

    import emulator

    current = emulator.current()
    if current is None:
        raise usage_error(
            "there is no environment to print", why="no emulator runs here", fix="trainway emulator start"
        )
    if as_json:
        print(json.dumps(current.environment(), indent=2, sort_keys=True))
        return
    for name, value in sorted(current.environment().items()):
        print(f"export {name}={shlex.quote(value)}")


@app.command()
def stop() -> None:
    """Stop the emulator. Everything that was deployed to it is lost."""
    import emulator

    stopped = emulator.stop()
    print(f"stopped {stopped.endpoint}" if stopped else "no emulator was running")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show whether an emulator runs on this machine, and how many resources it holds. If none does, exit with 1."""
    import emulator

    found = emulator.status()
    if as_json:
        known = {"endpoint": found.endpoint, "pid": found.pid, "resources": found.resources} if found else {}
        print(json.dumps({"running": found is not None, **known}, indent=2))
        if found is None:
            raise typer.Exit(1)
        return
    if found is None:
        print("no emulator is running")
        raise typer.Exit(1)
    print(f"{found.endpoint}, pid {found.pid}, up {found.age:.0f} s, {found.resources} resources")
