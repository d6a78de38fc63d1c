"""Read the digests of what the mirror stage copies, and write delivery/mirror.lock.yaml.

Prints one line for each change and for each entry that cannot be read. Exit status: 0 if nothing is left to do, 1 if an
entry cannot be read, was published again under the same version, or, with --check, differs, and 2 if the command cannot
begin. Entries that only a login can read do not count.
"""

import argparse
import shutil
import sys
from typing import Any

import yaml

from delivery.mirror_list import LIST, LOCK, from_repository, read_list, read_lock
from delivery.refresh_lock.changes import SECTIONS, Locked, LockSection, Refreshed, outcome
from delivery.refresh_lock.published import INSTALL, program_for, published

MirrorLock = dict[str, dict[str, Locked]]

HEAD = """\
# The digest of each image of delivery/mirror.yaml, and the SHA-256 of the archive of each chart that comes from a
# repository or a registry. The mirror stage copies nothing else. `python -m delivery.refresh_lock` writes this file. A
# comment that you add is lost. Review each change.
#
# `null` means that nobody has read it yet. The first copy then records it in the bucket, and a later copy that differs
# is refused (delivery/recorded.sh). `stated_by` is a source other than the registry that states the digest. The command
# keeps what you write there until the digest changes.
"""
TESTS = (
    "tests/delivery/test_mirror_list.py tests/delivery/test_mirror.py tests/security/test_supply_chain.py "
    "tests/spec/test_charts.py tests/seams/test_charts.py"
)


def written(lock: MirrorLock) -> str:
    """Return the text of a lock."""
    return HEAD + yaml.safe_dump(lock, sort_keys=False, allow_unicode=True, width=1000)


def entries(document: dict[str, Any]) -> list[tuple[LockSection, dict[str, Any]]]:
    """Return the entries of the list that the lock pins. The list itself pins charts of git and manifests."""
    images, charts = SECTIONS
    from_elsewhere = [chart for chart in document["charts"] if from_repository(chart)]
    return [(images, each) for each in document["images"]] + [(charts, each) for each in from_elsewhere]


def main() -> int:
    """Run the command, and return its exit status."""
    try:
        document, lock = read_list(), read_lock()
    except (OSError, yaml.YAMLError) as error:
        return _refused(f"{LIST} and {LOCK} cannot be read: {error}. Restore them, for example with `git checkout`")
    listed = entries(document)
    options = _options({entry[kind.name] for kind, entry in listed})
    chosen = [(kind, entry) for kind, entry in listed if not options.names or entry[kind.name] in options.names]
    needed = {program for _, entry in chosen if (program := program_for(entry))}
    if missing := sorted(program for program in needed if not shutil.which(program)):
        return _refused(". ".join(f"{program} is not installed. {INSTALL[program]}" for program in missing))
    outcomes: dict[tuple[str, str], Refreshed] = {}
    for kind, entry in chosen:
        name = entry[kind.name]
        found = outcome(kind, entry, lock[kind.section].get(name), published, name in options.accept)
        outcomes[kind.section, name] = found
        if found.line:
            print(found.line, flush=True)
    after = _after(lock, listed, outcomes, forget=not options.names)
    status = 1 if any(each.wrong for each in outcomes.values()) else 0
    return _finished(written(after), changed=after != lock, status=status, check=options.check)


def _options(names: set[str]) -> argparse.Namespace:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m delivery.refresh_lock", description=__doc__, formatter_class=as_written)
    parser.add_argument("names", nargs="*", metavar="NAME", help="read only these images and charts. Default: all")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if something differs")
    either.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="NAME",
        help="write this entry although it was published again under the same version, or although its new version "
        "cannot be read, for example --accept kueue. Default: keep what the lock has",
    )
    options = parser.parse_args()
    if unknown := sorted({*options.names, *options.accept} - names):
        parser.error(f"{LIST.name} has no {', '.join(unknown)} to pin. It has {', '.join(sorted(names))}")
    if options.names and (left := sorted(set(options.accept) - set(options.names))):
        parser.error(f"--accept {', '.join(left)} is not among the names to read. Add the name, or leave out all names")
    return options


def _after(
    lock: MirrorLock,
    listed: list[tuple[LockSection, dict[str, Any]]],
    outcomes: dict[tuple[str, str], Refreshed],
    forget: bool,
) -> MirrorLock:
    """Return the lock in the order of the list. With `forget`, print and leave out what the list does not have."""
    after: MirrorLock = {kind.section: {} for kind in SECTIONS}
    for kind, entry in listed:
        name = entry[kind.name]
        found = outcomes.get((kind.section, name))
        if locked := found.locked if found else lock[kind.section].get(name):
            after[kind.section][name] = locked
    for kind in SECTIONS:
        for name, locked in lock[kind.section].items():
            if name in after[kind.section]:
                continue
            if forget:
                print(f"{kind.word} {name} {locked[kind.version]}: removed, because {LIST.name} does not have it")
            else:
                after[kind.section][name] = locked
    return after


def _finished(text: str, *, changed: bool, status: int, check: bool) -> int:
    """Write the lock unless the command only checks, say what to do next, and return the exit status."""
    differs = text != LOCK.read_text()
    if check:
        if differs and not changed:
            print(f"{LOCK} has another order or another comment than the command writes")
        if differs:
            print(f"{LOCK} differs. Run `python -m delivery.refresh_lock`, and review what it writes")
        return 1 if differs else status
    if differs:
        LOCK.write_text(text)
        print(f"Wrote {LOCK}. Review each change, and run `pytest -q {TESTS}`")
    else:
        print(f"{LOCK} is unchanged")
    return status


def _refused(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
