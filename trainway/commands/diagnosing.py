"""`trainway explain` and `verify`: why a job failed, and whether the nodes are fit for the next one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.node_test import prepare_test, rendered_test, run_test, shown_results
from trainway.commands.options import takes_options
from trainway.commands.printing import AsJson, show
from trainway.commands.progress import working
from trainway.commands.repairing import repair_nodes
from trainway.commands.verify_options import VerifyOptions
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.extensions.find_slow.show_rates import ShownSearch


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


@takes_options
def verify(
    group: Annotated[
        str | None, typer.Argument(help="Node group to test. Default: the first with accelerators.")
    ] = None,
    *,
    options: VerifyOptions,
) -> None:
    """Test whether nodes can train together: EFA, bandwidth, image, file system, clocks, and GPUs."""
    _check(options)
    repairs = options.repairs
    if options.run is not None:
        shown = shown_results(_of_run(options.run))
        _print_text(shown, options)
        raise _exit(shown.document, options)
    test = prepare_test(group, options)
    if options.dry_run and not repairs.repair:
        print(rendered_test(test), end="")
        return
    results, shown = run_test(test)
    _print_text(shown, options)
    document = shown.document
    if repairs.repair:
        document |= repair_nodes(
            results,
            test.request,
            repairs.repair_with,
            ask=not repairs.yes,
            send_none=options.dry_run,
            as_json=options.as_json,
        )
    raise _exit(document, options)


def _check(options: VerifyOptions) -> None:
    """Raise UsageError for options that do not go together."""
    repairs = options.repairs
    if (repairs.repair_with or repairs.yes) and not repairs.repair:
        option = "--repair-with" if repairs.repair_with else "--yes"
        raise usage_error(f"{option} has no effect", why="no node is repaired without --repair", fix="add --repair")
    if options.find_slow:
        _check_find_slow(options.nodes, options.run)
    if options.run is not None and repairs.repair:
        why = "the logs of a run show only which nodes use TCP, and the cause may be the image of the run"
        raise usage_error("--repair cannot be used with --run", why=why, fix="leave out --run to test the nodes")


def _check_find_slow(nodes: int, run: str | None) -> None:
    """Raise UsageError if --find-slow cannot compare anything."""
    if run is not None:
        why = "the logs of a run have no rates of nodes"
        raise usage_error("--find-slow cannot be used with --run", why=why, fix="leave out --run to test the nodes")
    if nodes < 2:
        why, fix = "a node is slow in comparison with others", "set --nodes to 3 or more, for example --nodes 4"
        raise usage_error(f"--find-slow cannot be used with --nodes {nodes}", why=why, fix=fix)


def _print_text(shown: ShownSearch, options: VerifyOptions) -> None:
    """Print the results for people. A repair takes the place of the advice about slow nodes."""
    if options.as_json:
        return
    print(shown.text)
    if shown.advice and not options.repairs.repair:
        print(f"\n{shown.advice}")


def _exit(document: dict[str, Any], options: VerifyOptions) -> typer.Exit:
    """Return the end of the command with the exit status of a document, after printing the document as JSON."""
    if options.as_json:
        print(json.dumps(document, indent=2))
    return typer.Exit(document["exit_status"])


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
