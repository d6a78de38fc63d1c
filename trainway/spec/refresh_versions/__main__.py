"""Bring versions.yaml and the charts up to date: `python -m trainway.spec.refresh_versions`.

Asks the publishers' indexes for PyTorch, NCCL, the EFA installer, aws-ofi-nccl, and NCCL's tests, and for the charts of
delivery/mirror.yaml and their images. Prints a line for each row that is missing, and what its publisher promises. Then
writes the rows with their checksums, moves `current`, writes what depends on them, and names the tests to run. A second
run changes nothing. It needs a checkout, and no credentials. What AWS answers to credentials, trainway.spec.refresh
compares.

The exit status is 0 if everything was asked, 1 if an index did not answer, a program failed, `current` lacks a PyTorch
that is older than 14 days, or, with --check, something is missing, and 2 if the command cannot begin.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from trainway.spec.errors import UsageError
from trainway.spec.facts.files import read_facts
from trainway.spec.facts.versions import VERSIONS_FILE, Versions
from trainway.spec.loader import load_versions
from trainway.spec.refresh_versions.combining import late, newest, next_current
from trainway.spec.refresh_versions.indexes import Fetch, asker, newest_pytorch
from trainway.spec.refresh_versions.rows import (
    Filled,
    NewRow,
    Unasked,
    rows_of_efa,
    rows_of_nccl_tests,
    rows_of_pytorch,
    with_channel,
    with_rows,
)

ROOT = VERSIONS_FILE.parents[3]
# What is written again after a row of versions.yaml, and after a chart.
AFTER_VERSIONS = (["container/lock.py", "--missing"], ["-m", "docs.generators", "versions", "reference"])
CHARTS = ["-m", "delivery.refresh_lock.charts"]
AFTER_CHARTS = (["-m", "tests.seams.charts"], ["-m", "tests.seams.kubernetes.refresh_definitions"])
TESTS = [
    "tests/container/test_versions.py",
    "tests/container/test_lock.py",
    "tests/spec/test_fabric.py",
    "tests/launch/test_image_checks.py",
    "tests/delivery/test_mirror_list.py",
    "tests/spec/test_charts.py",
    "tests/seams/test_charts.py",
]


class Differences(NamedTuple):
    """What the indexes have and versions.yaml lacks, the reasons why some were not read, and a lateness."""

    rows: list[NewRow | Filled]
    unasked: list[UsageError]
    released: dict[str, date]


def main(words: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    options = _options(words)
    failed = False
    if "versions" in options.parts:
        failed |= _refresh_versions(options)
    if "charts" in options.parts:
        failed |= _refresh_charts(options)
    if options.test:
        failed |= _run(["-m", "pytest", "-q", "-p", "no:xdist", *(options.only or TESTS)])
    elif not options.check:
        print(f"Run `python -m pytest -q {' '.join(TESTS)}`, and `make image-proof-cpu`")
    return 1 if failed else 0


def find(ask: Fetch, today: date) -> Differences:
    """Ask every index for what versions.yaml lacks."""
    versions = load_versions()
    found = Differences([], [], {})

    def pytorch() -> Iterator[NewRow]:
        newest = newest_pytorch(ask, versions.images[0].python)
        found.released[newest.version] = newest.day
        yield from rows_of_pytorch(versions, newest, today)

    readers: tuple[Callable[[], Iterator[NewRow | Filled | Unasked]], ...] = (
        pytorch,
        lambda: rows_of_efa(versions, ask, today),
        lambda: rows_of_nccl_tests(versions, ask, today),
    )
    for reader in readers:
        try:
            for each in reader():
                if isinstance(each, Unasked):
                    found.unasked.append(each.reason)
                else:
                    found.rows.append(each)
        except UsageError as error:
            found.unasked.append(error)
    return found


def _refresh_versions(options: argparse.Namespace) -> bool:
    """Write what versions.yaml lacks, and what depends on it. Return whether something is left to do."""
    today = datetime.now(UTC).date()
    found = find(asker(dict(options.at)), today)
    for error in found.unasked:
        print(f"not read: {error}", file=sys.stderr)
    for each in found.rows:
        print(f"{each.section} {each.version}: {each.meaning}")
    if options.check:
        return bool(found.rows or found.unasked)
    before = VERSIONS_FILE.read_text(encoding="utf-8")
    text = with_rows(before, found.rows)
    versions = _written(text)
    combination = next_current(versions, options.evidence, today)
    if combination is None and newest(versions).version in {each.version for each in found.rows}:
        # No list of packages is made for a PyTorch that no combination has.
        text = with_rows(before, [each for each in found.rows if each.section != "pytorch"])
        versions = _written(text)
    elif combination:
        name = combination["name"]
        print(f"combinations {name}: PyTorch {combination['pytorch']}, EFA installer {combination['efa_installer']}")
        text = with_channel(with_rows(text, [NewRow("combinations", combination, "")]), "current", name)
        versions = _written(text)
    failed = bool(found.unasked)
    if sentence := late(versions, found.released, today):
        print(sentence, file=sys.stderr)
        failed = True
    if text == before:
        print(f"{VERSIONS_FILE.name} has everything that was read")
        return failed
    return _run_all(AFTER_VERSIONS) or failed


def _written(text: str) -> Versions:
    """Write versions.yaml, and return what it says. Raises SpecError if a rule refuses it."""
    VERSIONS_FILE.write_text(text, encoding="utf-8")
    load_versions.cache_clear()
    return load_versions()


def _refresh_charts(options: argparse.Namespace) -> bool:
    """Write the newest charts, and what depends on them. Return whether something is left to do."""
    before = _pinned()
    failed = _run([*CHARTS, *(["--check"] if options.check else []), *options.chart])
    if changed := sorted(name for name, version in _pinned().items() if version != before[name]):
        failed |= _run_all((["-m", "delivery.refresh_lock", *changed], *AFTER_CHARTS))
    return failed


def _pinned() -> dict[str, str]:
    """Return the version of each image and chart of delivery/mirror.yaml by its name."""
    mirror = read_facts(ROOT / "delivery/mirror.yaml")
    images = {each["name"]: each["tag"] for each in mirror["images"]}
    return images | {f"{each['chart']}": f"{images.get(each['chart'])} {each['version']}" for each in mirror["charts"]}


def _run_all(programs: Sequence[list[str]]) -> bool:
    """Run each of several programs, and return whether one failed."""
    return True in [_run(each) for each in programs]


def _run(words: list[str]) -> bool:
    """Run a Python program of the checkout, and return whether it failed."""
    print(f"$ python {' '.join(words)}", flush=True)
    return subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode != 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m trainway.spec.refresh_versions", description=__doc__, formatter_class=as_written
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="versions or charts. Default: both")
    parser.add_argument(
        "--chart", action="append", default=[], metavar="NAME", help="take this chart only. Default: all charts"
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if something is missing")
    parser.add_argument("--test", action="store_true", help="run the tests at the end. Default: print their command")
    parser.add_argument(
        "--only", action="append", default=[], metavar="FILE", help="with --test, run these tests. Default: all of them"
    )
    parser.add_argument(
        "--evidence",
        metavar="TEXT",
        help="who runs a pair that was not tested by its publisher, with an address and the day. Default: take such a "
        "pair only with the evidence of an earlier combination",
    )
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        type=_mirror,
        metavar="HOST=ADDRESS",
        help="ask ADDRESS in place of https://HOST, for example pypi.org=https://mirror.example.com",
    )
    options = parser.parse_args(words)
    options.parts = options.parts or ["versions", "charts"]
    if unknown := sorted({*options.parts} - {"versions", "charts"}):
        parser.error(f"there is no part {', '.join(unknown)}: the parts are versions and charts")
    if not (ROOT / "container/lock.py").exists():
        parser.error(f"{ROOT} is no checkout of Trainway, to which versions are added")
    return options


def _mirror(text: str) -> tuple[str, str]:
    host, equals, address = text.partition("=")
    if not equals or not host or not address.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text} is not HOST=ADDRESS, for example pypi.org=https://mirror.example.com")
    return host, address


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
