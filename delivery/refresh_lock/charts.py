"""Take the newest version of each chart of delivery/mirror.yaml, and of the images that it names.

    python -m delivery.refresh_lock.charts [--check] [NAME ...]

Prints a line for each change. Helm asks the repository or the registry of a chart for the newest version that is no
prerelease. The tags of the images are those of the values of the chart. Charts of git, manifests, and charts that
require a login stay as they are. Exit status: 0 if everything was asked, 1 if a chart cannot be read, or, with --check,
differs.

`python -m trainway.spec.refresh_versions` calls it, and then what reads the digests and renders the charts.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from delivery.mirror_list import LIST, from_repository, read_list
from delivery.refresh_lock.published import INSTALL, Unread, output


def newest(chart: dict[str, Any], folder: Path) -> tuple[str, Path]:
    """Return the newest version of a chart, and the folder with its files. Raises Unread if Helm cannot pull it."""
    source = [chart["oci"]] if "oci" in chart else [chart["chart"], "--repo", chart["repository"]]
    # Neither the repositories nor the caches of whoever runs the command.
    homes = {f"HELM_{each}_HOME": f"{folder}/{each}" for each in ("CONFIG", "CACHE", "DATA")}
    plain = ["--plain-http"] if chart.get("oci", "").startswith("oci://127.0.0.1:") else []
    output(["helm", "pull", *source, *plain, "--untar", "--untardir", f"{folder}/pulled"], homes)
    [pulled] = [each for each in (folder / "pulled").iterdir() if each.is_dir()]
    return str(_document(pulled / "Chart.yaml")["version"]), pulled


def default_tag(pulled: Path, path: str) -> str | None:
    """Return the tag that a chart's values have at a path, as `image.tag`, or the version of its application.

    A path of a sub-chart begins with its name. None if neither is there.
    """
    first, _, rest = path.partition(".")
    if (pulled / "charts" / first).is_dir():
        return default_tag(pulled / "charts" / first, rest)
    found: Any = _document(pulled / "values.yaml")
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return str(found or _document(pulled / "Chart.yaml").get("appVersion") or "") or None


def changes(chart: dict[str, Any], images: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield what a newer chart changes: `chart` or `image`, the name, and the version before and after.

    `images` has the tags of the list by name. Raises Unread if Helm cannot pull the chart.
    """
    with tempfile.TemporaryDirectory() as folder:
        version, pulled = newest(chart, Path(folder))
        if version == chart["version"]:
            return
        yield "chart", chart["chart"], chart["version"], version
        tags = {value["image"]: default_tag(pulled, value["tag"]) for value in chart["image_values"]}
        for name, tag in tags.items():
            if tag and tag != images[name]:
                yield "image", name, images[name], tag


def changed(text: str, kind: str, name: str, before: str, after: str, day: str) -> str:
    """Return the text of the list with another version of an entry, of its source, and of the day. Comments stay."""
    key, version = ("chart", "version") if kind == "chart" else ("name", "tag")
    lines = text.splitlines(keepends=True)
    at = lines.index(f"  - {key}: {name}\n")
    end = next((each for each in range(at + 1, len(lines)) if re.match(r"  - |\S", lines[each])), len(lines))
    for each in range(at, end):
        if lines[each].startswith(f"    {version}: "):
            lines[each] = f"    {version}: {after}\n"
        elif lines[each].startswith("    source: "):
            lines[each] = lines[each].replace(before.removeprefix("v"), after.removeprefix("v"))
        elif lines[each].startswith("    read: "):
            lines[each] = f"    read: {day}\n"
    return "".join(lines)


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser("python -m delivery.refresh_lock.charts", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="ask for these charts only. Default: all")
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if a chart differs")
    options = parser.parse_args()
    document, text = read_list(), LIST.read_text(encoding="utf-8")
    images = {image["name"]: image["tag"] for image in document["images"]}
    asked = [each for each in document["charts"] if from_repository(each) and not each.get("requires_login")]
    if unknown := sorted(set(options.names) - {each["chart"] for each in asked}):
        parser.error(f"{LIST.name} has no {', '.join(unknown)} to ask for")
    status, day = 0, datetime.now(UTC).date().isoformat()
    for chart in asked:
        if options.names and chart["chart"] not in options.names:
            continue
        try:
            for kind, name, before, after in changes(chart, images):
                print(f"{kind} {name}: {before} -> {after}", flush=True)
                text = changed(text, kind, name, before, after, day)
        except FileNotFoundError:
            print(f"error: helm is not installed. {INSTALL['helm']}", file=sys.stderr)
            return 1
        except (Unread, subprocess.SubprocessError, yaml.YAMLError) as error:
            print(f"chart {chart['chart']} {chart['version']}: not read: {error}", flush=True)
            status = 1
    if text == LIST.read_text(encoding="utf-8"):
        print(f"{LIST.name} has everything that was read")
        return status
    if options.check:
        return 1
    LIST.write_text(text, encoding="utf-8")
    print(f"Wrote {LIST}. Review each change")
    return status


def _document(file: Path) -> dict[str, Any]:
    """Return the content of a YAML file, empty without the file."""
    return (yaml.safe_load(file.read_text(encoding="utf-8")) or {}) if file.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
