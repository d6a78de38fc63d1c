"""The rows that versions.yaml lacks, and the text of the file with them."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from datetime import date
from typing import Any, NamedTuple

import yaml

from trainway.spec.errors import UsageError
from trainway.spec.facts.versions import Versions, release
from trainway.spec.image.compatibility import is_older
from trainway.spec.refresh_versions import indexes
from trainway.spec.refresh_versions.indexes import Fetch, Wheel

Values = dict[str, Any]
CHANGELOG = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html"


class NewRow(NamedTuple):
    """A row for a section of versions.yaml, and what it means in a sentence."""

    section: str
    row: Values
    meaning: str

    @property
    def version(self) -> str:
        """The version, or the name, of the row."""
        return str(self.row.get("version") or self.row["name"])


class Filled(NamedTuple):
    """Values of a row that were unknown, and what they mean in a sentence."""

    section: str
    version: str
    values: Values
    meaning: str


class Unasked(NamedTuple):
    """An index that was not read, with the reason."""

    reason: UsageError


def rows_of_pytorch(versions: Versions, newest: Wheel, today: date) -> Iterator[NewRow]:
    """Yield the row of the newest PyTorch if the file lacks it."""
    if release(versions.pytorch, newest.version):
        return
    row = {
        "version": newest.version,
        "sha256": newest.sha256,
        "python": versions.images[0].python,
        "cuda_toolkit": newest.cuda_toolkit,
        "nccl": newest.nccl,
        "source": f"Python Package Index, {newest.file} and its metadata",
        "read": today,
    }
    yield NewRow("pytorch", row, f"released {newest.day}; requires CUDA {newest.cuda_toolkit} and NCCL {newest.nccl}")


def rows_of_efa(versions: Versions, ask: Fetch, today: date) -> Iterator[NewRow | Filled | Unasked]:
    """Yield the newest EFA installer and what goes with it, and values that earlier rows lack."""
    newest = indexes.newest_efa_installer(ask)
    unknown = [each for each in versions.efa_installers if each.sha256 is None]
    if not release(versions.efa_installers, newest.version):
        address = indexes.EFA_INSTALLER.format(newest.version)
        checksum = yield from _checksum(ask, address)
        row = {
            "version": newest.version,
            "url": address,
            "sha256": checksum,
            "libfabric": newest.libfabric,
            "aws_ofi_nccl": newest.aws_ofi_nccl,
            "source": CHANGELOG,
            "read": today,
        }
        meaning = f"carries libfabric {newest.libfabric} and aws-ofi-nccl {newest.aws_ofi_nccl}"
        yield NewRow("efa_installers", row, meaning if checksum else f"{meaning}; without a checksum, none can name it")
    for installer in unknown:
        if checksum := (yield from _checksum(ask, installer.url)):
            yield Filled("efa_installers", installer.version, {"sha256": checksum}, "its checksum is known now")
    plugin = release(versions.aws_ofi_nccl, newest.aws_ofi_nccl)
    if plugin is None or plugin.nccl_from is None:
        yield from _rows_of_plugin(versions, ask, newest, today, is_new=plugin is None)


def rows_of_nccl_tests(versions: Versions, ask: Fetch, today: date) -> Iterator[NewRow]:
    """Yield the row of the newest release of NCCL's tests if the file lacks it."""
    version = indexes.newest_nccl_tests(ask)
    if release(versions.nccl_tests, version):
        return
    address = f"https://github.com/NVIDIA/nccl-tests/archive/v{version}.tar.gz"
    checksum = indexes.sha256_of(ask, address)
    source = f"https://github.com/NVIDIA/nccl-tests/tree/v{version}"
    row = {"version": version, "url": address, "sha256": checksum, "source": source, "read": today}
    yield NewRow("nccl_tests", row, "the build compiles them")


def with_rows(text: str, rows: list[NewRow | Filled]) -> str:
    """Return the text of versions.yaml with each row at the end of its section, and with the values. Comments stay."""
    lines = text.splitlines()
    for each in rows:
        begin = lines.index(f"{each.section}:")
        after = next((at for at in range(begin + 1, len(lines)) if re.match(r"[^ ]", lines[at])), len(lines))
        if isinstance(each, NewRow):
            while not lines[after - 1].strip():
                after -= 1
            lines[after:after] = _as_lines(each.row)
            continue
        at = lines.index(f"  - version: {each.version}", begin, after)
        for key, value in each.values.items():
            line = next(number for number in range(at, after) if lines[number].startswith(f"    {key}:"))
            [lines[line]] = [line.replace("  - ", "    ") for line in _as_lines({key: value})]
    return "\n".join(lines) + "\n"


def with_channel(text: str, channel: str, combination: str) -> str:
    """Return the text of versions.yaml with a channel that is another combination."""
    return re.sub(rf"^  {channel}: .*$", f"  {channel}: {combination}", text, flags=re.MULTILINE)


def _checksum(ask: Fetch, address: str) -> Generator[Unasked, None, str | None]:
    """Return the checksum of what is served, or None after yielding why it could not be read."""
    try:
        return indexes.sha256_of(ask, address)
    except UsageError as error:
        yield Unasked(error)
        return None


def _rows_of_plugin(
    versions: Versions, ask: Fetch, installer: indexes.Installer, today: date, *, is_new: bool
) -> Iterator[NewRow | Filled | Unasked]:
    """Yield what the notes of a plugin promise, and the NCCL that it was tested with if none of the file is so new."""
    version = installer.aws_ofi_nccl
    notes = indexes.Notes((), None, (), None)
    try:
        notes = indexes.plugin_notes(ask, version)
    except UsageError as error:
        yield Unasked(error)
    # AWS releases the plugin and libfabric in one installer, also where the notes were not read.
    promised = {
        "tested_with_libfabric": sorted({*notes.tested_with_libfabric, installer.libfabric}),
        "libfabric_from": notes.libfabric_from,
        "tested_with_nccl": list(notes.tested_with_nccl),
        "nccl_from": notes.nccl_from,
    }
    tested = " or ".join(notes.tested_with_nccl) or "no NCCL that was found"
    meaning = f"tested with {tested}; called compatible with NCCL {notes.nccl_from or 'none'} and newer"
    source = f"https://github.com/aws/aws-ofi-nccl/releases/tag/v{version}"
    if is_new:
        yield NewRow(
            "aws_ofi_nccl", {"version": version, **promised, "gin": None, "source": source, "read": today}, meaning
        )
    elif notes.nccl_from:
        yield Filled("aws_ofi_nccl", version, {**promised, "source": source, "read": today}, meaning)
    known = {*(each.version for each in versions.nccl), *(wheel.nccl for wheel in versions.pytorch)}
    for nccl in notes.tested_with_nccl:
        if not all(is_older(each, nccl) for each in known):
            continue
        if checksum := indexes.nccl_sha256(ask, nccl):
            row = {"version": nccl, "sha256": checksum, "source": f"Python Package Index, nvidia-nccl-cu13 {nccl}"}
            yield NewRow("nccl", {**row, "read": today}, "a combination can have it in place of PyTorch's own")


def _as_lines(row: Mapping[str, Any]) -> list[str]:
    """Return a row of a list in the style of versions.yaml."""
    options: dict[str, Any] = {"width": 1000, "allow_unicode": True}
    lines = []
    for key, value in row.items():
        # A list of sentences has a line for each, and a list of versions has one line.
        if isinstance(value, list) and not any(" " in each for each in value):
            lines.append(f"{key}: {yaml.safe_dump(value, default_flow_style=True, **options).strip()}")
        else:
            lines += yaml.safe_dump({key: value}, default_flow_style=False, **options).splitlines()
    return [("  - " if at == 0 else "    ") + line for at, line in enumerate(lines)]
