"""Prints delivery/mirror.yaml for the shell: one entry a line, fields separated by tabs, `-` for an empty one.

`tool NAME`            version, url, sha256
`images`               name, source (by digest where it is known), tag
`charts ORCHESTRATOR`  chart, version, kind (repository | oci | git), location, commit, directory, release, namespace,
                       platform values (required | optional)
`set CHART PREFIX REGION`  the words that point the chart's images at PREFIX (`<registry>/<repository prefix>`) and that
                       name its region, one a line
"""

import sys
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("mirror.yaml")


def image_source(image: dict[str, Any]) -> str:
    """Returns the reference to copy from: by digest where it is known, else by tag."""
    return f"{image['repository']}@{image['digest']}" if image["digest"] else f"{image['repository']}:{image['tag']}"


def chart_fields(chart: dict[str, Any]) -> list[str]:
    """Returns one chart's line; see the module's docstring."""
    git = chart.get("git", {})
    kind = next(kind for kind in ("repository", "oci", "git") if kind in chart)
    location = git.get("url") or chart[kind]
    origin = [git.get("commit", "-"), git.get("directory", "-")]
    values = chart.get("platform_values", "optional")
    return [chart["chart"], chart["version"], kind, location, *origin, chart["release"], chart["namespace"], values]


def set_words(chart: dict[str, Any], images: list[dict[str, Any]], prefix: str, region: str) -> list[str]:
    """Returns `--set-string KEY=VALUE` for each image and region the chart names; `prefix` is `<registry>/<path>`."""
    by_name = {image["name"]: image for image in images}
    registry, _, path = prefix.partition("/")
    words = ["--set-string", f"{chart['region_value']}={region}"] if "region_value" in chart else []
    for value in chart["image_values"]:
        image = by_name[value["image"]]
        repository = f"{path}/{image['name']}"
        pairs = {value["tag"]: image["tag"]}
        if "registry" in value:
            pairs |= {value["registry"]: registry, value["repository"]: repository}
        else:
            pairs |= {value["repository"]: f"{registry}/{repository}"}
        for key, text in pairs.items():
            words += ["--set-string", f"{key}={text}"]
    return words


def lines(arguments: list[str], document: dict[str, Any]) -> list[str]:
    """Returns the lines for one call; raises `SystemExit` (status 2) on an unknown one."""
    match arguments:
        case ["tool", name]:
            tool = document["tools"][name]
            return ["\t".join([tool["version"], tool["url"], tool["sha256"]])]
        case ["images"]:
            return ["\t".join([image["name"], image_source(image), image["tag"]]) for image in document["images"]]
        case ["charts", orchestrator]:
            charts = [chart for chart in document["charts"] if orchestrator in chart["orchestrators"]]
            return ["\t".join(chart_fields(chart)) for chart in charts]
        case ["set", name, prefix, region]:
            chart = next(chart for chart in document["charts"] if chart["chart"] == name)
            return set_words(chart, document["images"], prefix, region)
        case _:
            print(__doc__, file=sys.stderr)
            raise SystemExit(2)


if __name__ == "__main__":
    for line in lines(sys.argv[1:], yaml.safe_load(LIST.read_text())):
        print(line)
