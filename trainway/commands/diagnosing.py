"""`trainway explain` and `verify`: why a job failed, and whether the nodes are fit for the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from trainway.commands.launching import DEFAULT_PLATFORM, PlatformFile
from trainway.spec.errors import usage_error

AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


def explain(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run, or a directory of logs from anywhere.")],
    as_json: AsJson = False,
) -> None:
    """Say why a job failed, and what to do about it."""
    from trainway.explain import as_document, as_text, evidence_in, evidence_of
    from trainway.explain import explain as findings_of
    from trainway.launch.run_directory import RUNS, run_named

    is_run = any((directory / "launch.json").is_file() for directory in (RUNS / name, Path(name)))
    of_others = Path(name).is_dir() and not is_run
    evidence = evidence_in(Path(name)) if of_others else evidence_of(run_named(name))
    findings = findings_of(evidence)
    print(json.dumps(as_document(findings), indent=2) if as_json else as_text(findings))


def verify(
    group: Annotated[str | None, typer.Argument(help="The node group; else the first with accelerators.")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="So many of its nodes at once.")] = 2,
    run: Annotated[str | None, typer.Option(help="Look at this run's own logs, and start nothing.")] = None,
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    team: Annotated[str | None, typer.Option(help="The team whose quota the nodes are of.")] = None,
    gib: Annotated[int, typer.Option(min=1, max=64, help="The largest all-reduce.")] = 8,
    dcgm_level: Annotated[int, typer.Option(min=1, max=4, help="How deep dcgmi looks: 1 takes seconds.")] = 1,
    environment: Annotated[
        str | None, typer.Option(metavar="PATH", help="Under Slurm: a virtual environment, not the image.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Under Slurm: your login name on the cluster.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prove that nodes can train together: EFA, bandwidth, image, file system, clocks, GPUs."""
    from trainway.verify import as_document, as_table, exit_status

    if run is not None:
        results = _of_run(run)
    else:
        from trainway.launch.prepare import prepare
        from trainway.launch.submission import default_options, render
        from trainway.spec.catalogue import load_catalogue
        from trainway.spec.loader import load_platform, load_versions
        from trainway.verify import expected_versions, probe_point, probe_request, verify_nodes

        platform, catalogue = load_platform(platform_file), load_catalogue()
        [request] = prepare([probe_point(nodes, catalogue, team=team)], platform, catalogue, group=group)
        probe = probe_request(request, max_bytes=gib * 2**30, dcgm_level=dcgm_level)
        target = "kubernetes" if platform.orchestrator.is_kubernetes else "slurm"
        options: dict[str, Any] = default_options(target)
        if target == "slurm":
            options |= {"environment": environment, "user": user}
        if dry_run:
            print(render(probe, catalogue, target, options, None), end="")
            return
        results = verify_nodes(
            probe, catalogue, target, options, expected_versions(platform, catalogue, load_versions())
        )
    print(json.dumps(as_document(results), indent=2) if as_json else as_table(results))
    raise typer.Exit(exit_status(results))


def _of_run(name: str) -> Any:
    """Whether a run that was submitted chose EFA, by what its nodes have written so far."""
    from trainway.launch.run_directory import read_launch, run_named
    from trainway.launch.targets import target_named
    from trainway.spec.catalogue import load_catalogue
    from trainway.verify import fabric_of_job

    record = read_launch(run_named(name))
    if "nodes" not in record:
        raise usage_error(f"{name} cannot be looked at", why="it runs on this machine alone", fix="name another run")
    text = "\n".join(target_named(record["target"]).logs(record["handle"], follow=False))
    where = record["nodes"]
    return fabric_of_job(text, load_catalogue()[where["instance_type"]], where["count"])
