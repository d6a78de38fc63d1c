"""`trainway explain` and `verify`: why a job failed, and whether the nodes are fit for the next one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, DeployedPlatformFile
from trainway.commands.printing import show
from trainway.commands.progress import working
from trainway.commands.repairing import repair_nodes
from trainway.spec.errors import usage_error

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def explain(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Name of a run, or a directory of logs from anywhere.")],
    as_json: AsJson = False,
) -> None:
    """Explain why a job failed and how to fix it."""
    from trainway.explain import as_document, as_text, evidence_in
    from trainway.explain import explain as findings_of
    from trainway.launch.registry.find import find_run
    from trainway.launch.runs.evidence import evidence_of
    from trainway.launch.runs.run_directory import directory_named, run_here
    from trainway.launch.starting.never_starts import never_starts

    of_others = None if run_here(name) else directory_named(name)
    with working(f"reading what is known of {name}"):
        if of_others:
            evidence = evidence_in(of_others)
        else:
            found = find_run(name)
            evidence = evidence_of(found) + never_starts(found)
        findings = findings_of(evidence)
    if as_json:
        print(json.dumps(as_document(findings), indent=2))
    else:
        show(as_text(findings, evidence))


def verify(
    group: Annotated[
        str | None, typer.Argument(help="Node group to test. Default: the first with accelerators.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of nodes to test at once.")] = 2,
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read the logs of this run instead of starting a test.")
    ] = None,
    platform_file: DeployedPlatformFile = DEFAULT_PLATFORM,
    team: Annotated[str | None, typer.Option(metavar="NAME", help="Team whose quota the test uses.")] = None,
    gib: Annotated[
        int, typer.Option(min=1, max=64, metavar="GIB", help="Size of the largest all-reduce in GiB, 1 to 64.")
    ] = 8,
    dcgm_level: Annotated[
        int,
        typer.Option(
            min=1, max=4, metavar="LEVEL", help="Level of the dcgmi diagnostics, 1 to 4. Level 1 takes seconds."
        ),
    ] = 1,
    find_slow: Annotated[
        bool,
        typer.Option(
            "--find-slow",
            help="Measure each node and pairs of nodes, and print the nodes and links with rates below 75 % of the "
            "median of the others. Use 3 nodes or more: in a single pair, the slow node cannot be identified. "
            "Default: test all nodes together.",
        ),
    ] = False,
    environment: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Slurm only: run in this virtual environment instead of the training image."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Slurm only: your login name on the cluster. Default: ubuntu.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Test this image of the platform file's `images`. Default: that of the node group."
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="HyperPod only: after the test, check, reboot, or replace the nodes at fault. Asks for a "
            "confirmation. Default: test only.",
        ),
    ] = False,
    repair_with: Annotated[
        Literal["check", "reboot", "replace"] | None,
        typer.Option(
            help="With --repair: repair each node at fault in this way. Default: as the failed check requires."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --repair: repair without a confirmation.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print what would be submitted, and submit nothing. With --repair: test the nodes, and print the "
            "requests to SageMaker without sending them.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether nodes can train together: EFA, bandwidth, image, file system, clocks, and GPUs."""
    from trainway.verify import as_document, as_table

    if (repair_with or yes) and not repair:
        option = "--repair-with" if repair_with else "--yes"
        raise usage_error(f"{option} has no effect", why="no node is repaired without --repair", fix="add --repair")
    if find_slow:
        _check_find_slow(nodes, run)
    shown = None
    if run is not None:
        if repair:
            why = "the logs of a run show only which nodes use TCP, and the cause may be the image of the run"
            raise usage_error("--repair cannot be used with --run", why=why, fix="leave out --run to test the nodes")
        results = _of_run(run)
    else:
        from trainway.extensions.find_slow.show_rates import as_shown
        from trainway.extensions.find_slow.slow_search import rates_request, search_slow_nodes
        from trainway.launch.registry.platform_file import platform_file_named
        from trainway.launch.starting.prepare import Launch, prepare
        from trainway.launch.target.known import own_target
        from trainway.launch.target.options import options_from
        from trainway.spec.facts.catalogue import load_catalogue
        from trainway.spec.loader import load_platform, load_versions
        from trainway.verify import expected_versions, probe_point, probe_request, verify_nodes
        from trainway.verify.probe_job import rates_command
        from trainway.verify.repairs import require_hyperpod

        file = platform_file_named(platform_file)
        platform, catalogue = load_platform(file), load_catalogue()
        if repair:
            require_hyperpod(platform)
        point = probe_point(nodes, team=team, command=rates_command() if find_slow else None)
        [request] = prepare(Launch([point], file, group=group, image=image, loaded=platform))
        # A repair names the node group of the nodes, so that only one group can be tested.
        request = replace(request, allocation=replace(request.allocation, others=()))
        probe = probe_request(request, max_bytes=gib * 2**30, dcgm_level=dcgm_level)
        asked = rates_request(request, max_bytes=gib * 2**30) if find_slow else probe
        target = own_target(platform)
        options = options_from(target.options, {"environment": environment, "user": user}, target.name)
        if dry_run and not repair:
            print(target.render(asked, catalogue, options), end="")
            return
        if find_slow:
            search = search_slow_nodes(asked, catalogue, target, options)
            results, shown = search.results, as_shown(search, platform, request.allocation.group.name)
        else:
            name = request.image_name
            # The file can have changed since the deploy.
            known = platform.of_image(name) if name in platform.image_names else None
            versions = expected_versions(known, catalogue, load_versions()) if known else {}
            results = verify_nodes(probe, catalogue, target, options, versions)
    if not as_json:
        print(shown.text if shown else as_table(results))
    document = shown.document if shown else as_document(results)
    if repair:
        document |= repair_nodes(results, request, repair_with, ask=not yes, send_none=dry_run, as_json=as_json)
    elif shown and shown.advice and not as_json:
        print(f"\n{shown.advice}")
    if as_json:
        print(json.dumps(document, indent=2))
    raise typer.Exit(document["exit_status"])


def _check_find_slow(nodes: int, run: str | None) -> None:
    """Raise UsageError if --find-slow cannot compare anything."""
    if run is not None:
        why = "the logs of a run have no rates of nodes"
        raise usage_error("--find-slow cannot be used with --run", why=why, fix="leave out --run to test the nodes")
    if nodes < 2:
        why, fix = "a node is slow in comparison with others", "set --nodes to 3 or more, for example --nodes 4"
        raise usage_error(f"--find-slow cannot be used with --nodes {nodes}", why=why, fix=fix)


def _of_run(name: str) -> Any:
    """Return whether a submitted run uses EFA, according to the logs of its nodes."""
    from trainway.launch.registry.find import find_run
    from trainway.launch.runs.run_directory import read_launch
    from trainway.launch.target.known import target_named
    from trainway.spec.facts.catalogue import load_catalogue
    from trainway.verify import fabric_of_job

    record = read_launch(find_run(name))
    if "nodes" not in record:
        raise usage_error(f"{name} cannot be looked at", why="it runs on this machine alone", fix="name another run")
    text = "\n".join(target_named(record["target"]).logs(record["handle"], follow=False))
    where = record["nodes"]
    return fabric_of_job(text, load_catalogue()[where["instance_type"]], where["count"])
