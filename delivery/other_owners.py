"""Finds workloads and objects of other owners in a cluster, in kubectl's JSON on standard input.

`workloads PREFIX NAME...`  of each of these charts of mirror.yaml: a line for each workload that runs one of its images
                            from a registry path that does not begin with PREFIX: chart, kind, namespace, name
`objects`                   a line for each object that this stage has not applied: kind, namespace, name
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from delivery.mirror_list import images_of, named_charts, read_list

MANAGER = "trainway"


def path_of(image: str) -> str:
    """Returns the last two parts of an image's repository, which a mirror keeps: `kueue/kueue`."""
    repository = image.partition("@")[0]
    head, slash, last = repository.rpartition("/")
    return "/".join(f"{head}{slash}{last.partition(':')[0]}".split("/")[-2:])


def workloads(found: dict[str, Any], prefix: str, names: list[str]) -> Iterator[tuple[str, ...]]:
    """Yields chart, kind, namespace, and name of each workload with an image of a chart from outside `prefix`."""
    document = read_list()
    for chart in named_charts(names, document):
        paths = {path_of(image["repository"]) for image in images_of([chart], document)}
        for item in found["items"]:
            pod = item["spec"]["template"]["spec"]
            images = [each["image"] for each in pod["containers"]]
            if any(path_of(image) in paths and not image.startswith(prefix) for image in images):
                yield chart["chart"], item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]


def objects(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields kind, namespace, and name of each object that the cluster stage did not apply."""
    for item in found.get("items", [found]):
        metadata = item["metadata"]
        if MANAGER not in {each.get("manager") for each in metadata.get("managedFields", [])}:
            yield item["kind"], metadata.get("namespace", "-"), metadata["name"]


def main() -> int:
    """Prints the lines; returns the exit status."""
    text = sys.stdin.read().strip()
    found = json.loads(text) if text else {"items": []}
    what, *arguments = sys.argv[1:]
    lines = objects(found) if what == "objects" else workloads(found, arguments[0], arguments[1:])
    for fields in lines:
        print("\t".join(fields))
    return 0


if __name__ == "__main__":
    sys.exit(main())
