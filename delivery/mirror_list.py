"""Prints delivery/mirror.yaml for the shell: one entry a line, fields separated by tabs, `-` for an empty one.

The digests and checksums are those of delivery/mirror.lock.yaml, which has them for one tag or version of each entry.

`tool NAME`        version, url, sha256
`charts NAME...`   in the order of the names: chart, version, kind (repository | oci | git | manifest), location, pin
                   (commit of git, sha256 of a manifest or, where it is known, of the packed archive), directory,
                   release, namespace, platform values (required | optional)
`others NAME...`   of each chart that is not named and that helm installs, the last one first: chart, release, namespace
`other-manifests NAME...`  of each chart that is not named and that is a manifest with a Deployment: chart, Deployment,
                   namespace
`images NAME...`   of each image that these charts name: name, source (by digest where it is known), tag
`signer NAME`      the words of `cosign verify` that name the signer of an image, one a line; nothing if nobody signs it
`set CHART PREFIX REGION`  the words that point the chart's images at PREFIX (`<registry>/<repository prefix>`) and that
                   name its region, one a line
`manifest CHART PREFIX FILE`  the manifest in FILE with its images pointed at PREFIX
"""

import sys
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("mirror.yaml")
LOCK = LIST.with_name("mirror.lock.yaml")
KINDS = ("repository", "oci", "git", "manifest")


def _read(file: Path) -> dict[str, Any]:
    """Returns the content of a YAML file. libyaml, where PyYAML has it, parses the list ten times as fast."""
    document: dict[str, Any] = yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


def read_list() -> dict[str, Any]:
    """Returns the content of mirror.yaml."""
    return _read(LIST)


def read_lock() -> dict[str, Any]:
    """Returns the content of mirror.lock.yaml."""
    return _read(LOCK)


def locked_digests(images: list[dict[str, Any]], lock: dict[str, Any]) -> dict[str, str | None]:
    """Returns the digest of each image by name, None where it is not known; raises `SystemExit` as `_locked` does."""
    return _locked("image", {image["name"]: image["tag"] for image in images}, lock["images"], "tag", "digest")


def locked_sums(charts: list[dict[str, Any]], lock: dict[str, Any]) -> dict[str, str | None]:
    """Returns the SHA-256 of the archive of each chart that `from_repository` names, as `locked_digests` does."""
    versions = {chart["chart"]: chart["version"] for chart in charts if from_repository(chart)}
    return _locked("chart", versions, lock["charts"], "version", "sha256")


def from_repository(chart: dict[str, Any]) -> bool:
    """Returns whether the chart is a packed archive of others. mirror.yaml itself pins commits and manifests."""
    return "repository" in chart or "oci" in chart


def _locked(
    what: str, versions: dict[str, str], lock: dict[str, dict[str, Any]], version_key: str, pin_key: str
) -> dict[str, str | None]:
    """Returns what the lock pins; raises `SystemExit` (status 2) naming all entries that it has for another version."""
    locked = {name: lock.get(name, {}).get(version_key) for name in versions}
    if stale := [name for name in versions if locked[name] != versions[name]]:
        named = ", ".join(f"{what} {name} {versions[name]} (it has {locked[name] or 'none'})" for name in stale)
        print(
            f"{LOCK.name} does not have the versions of {LIST.name}: {named}. Run `python -m delivery.refresh_lock "
            f"{' '.join(stale)}`, and review what it writes",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return {name: lock[name][pin_key] for name in versions}


def image_source(image: dict[str, Any], digest: str | None) -> str:
    """Returns the reference to copy from: by digest where it is known, else by tag."""
    return f"{image['repository']}@{digest}" if digest else f"{image['repository']}:{image['tag']}"


def signer_words(name: str, document: dict[str, Any]) -> list[str]:
    """Returns the options of `cosign verify` for the image's signer; empty if its signature is not verified."""
    [repository] = [image["repository"] for image in document["images"] if image["name"] == name]
    return [
        word
        for signer in document["signers"]
        if repository.startswith(signer["repositories"])
        for word in (
            f"--certificate-identity={signer['identity']}",
            f"--certificate-oidc-issuer={signer['issuer']}",
        )
    ]


def named_charts(names: list[str], document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the charts in the order of their names; raises `SystemExit` (status 2) naming all that are not listed."""
    by_name = {chart["chart"]: chart for chart in document["charts"]}
    if unknown := [name for name in names if name not in by_name]:
        print(f"{LIST.name} has no chart {', '.join(unknown)}; it has {', '.join(by_name)}", file=sys.stderr)
        raise SystemExit(2)
    return [by_name[name] for name in names]


def images_of(charts: list[dict[str, Any]], document: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the images that the charts name, in the list's order."""
    used = {value["image"] for chart in charts for value in chart["image_values"]}
    return [image for image in document["images"] if image["name"] in used]


def chart_fields(chart: dict[str, Any], sums: dict[str, str | None]) -> list[str]:
    """Returns one chart's line; see the module's docstring. `sums` are those of `locked_sums`."""
    kind = next(kind for kind in KINDS if kind in chart)
    origin = chart[kind] if isinstance(chart[kind], dict) else {"url": chart[kind]}
    pin = origin.get("commit") or origin.get("sha256") or sums[chart["chart"]] or "-"
    values = chart.get("platform_values", "optional")
    origin_fields = [origin["url"], pin, origin.get("directory", "-"), chart["release"], chart["namespace"]]
    return [chart["chart"], chart["version"], kind, *origin_fields, values]


def set_words(chart: dict[str, Any], images: list[dict[str, Any]], prefix: str, region: str) -> list[str]:
    """Returns `--set-string KEY=VALUE` for each image and region the chart names; `prefix` is `<registry>/<path>`."""
    by_name = {image["name"]: image for image in images}
    registry, _, path = prefix.partition("/")
    words = {chart["region_value"]: region} if "region_value" in chart else {}
    for value in chart["image_values"]:
        image = by_name[value["image"]]
        repository = f"{path}/{image['name']}"
        words[value["tag"]] = image["tag"]
        if "folder" in value:
            words[value["folder"]] = f"{registry}/{repository.rpartition('/')[0]}"
        elif "registry" in value:
            words |= {value["registry"]: registry, value["repository"]: repository}
        else:
            words[value["repository"]] = f"{registry}/{repository}"
    return [word for key, text in words.items() for word in ("--set-string", f"{key}={text}")]


def pointed_manifest(
    manifest: list[str], chart: dict[str, Any], images: list[dict[str, Any]], prefix: str
) -> list[str]:
    """Returns the manifest's lines with each image that the chart names taken from its copy.

    Raises `SystemExit` (status 2) where the manifest does not have one: the cluster would pull it from the internet.
    """
    by_name, manifest = {image["name"]: image for image in images}, list(manifest)
    for value in chart["image_values"]:
        image = by_name[value["image"]]
        before, after = f"image: {value['reference']}", f"image: {prefix}/{image['name']}:{image['tag']}"
        matching_lines = [at for at, line in enumerate(manifest) if line.strip().removeprefix("- ") == before]
        if not matching_lines:
            print(f"the manifest of {chart['chart']} has no `{before}`", file=sys.stderr)
            raise SystemExit(2)
        for at in matching_lines:
            manifest[at] = manifest[at].replace(before, after)
    return manifest


def lines(arguments: list[str], document: dict[str, Any], lock: dict[str, Any]) -> list[str]:
    """Returns the lines for one call; raises `SystemExit` (status 2) on an unknown one."""
    match arguments:
        case ["tool", name]:
            tool = document["tools"][name]
            return ["\t".join([tool["version"], tool["url"], tool["sha256"]])]
        case ["charts", *names]:
            charts = named_charts(names, document)
            sums = locked_sums(charts, lock)
            return ["\t".join(chart_fields(chart, sums)) for chart in charts]
        case [("others" | "other-manifests") as which, *names]:
            charts = [chart for chart in reversed(document["charts"]) if chart["chart"] not in names]
            of_kind = [chart for chart in charts if ("manifest" in chart) == (which == "other-manifests")]
            fields = [[chart["chart"], chart["release"], chart["namespace"]] for chart in of_kind]
            return ["\t".join(each) for each in fields if each[1] != "-"]
        case ["images", *names]:
            images = images_of(named_charts(names, document), document)
            digests = locked_digests(images, lock)
            fields = [[image["name"], image_source(image, digests[image["name"]]), image["tag"]] for image in images]
            return ["\t".join(each) for each in fields]
        case ["signer", name]:
            return signer_words(name, document)
        case ["set", name, prefix, region]:
            [chart] = named_charts([name], document)
            return set_words(chart, document["images"], prefix, region)
        case ["manifest", name, prefix, file]:
            [chart] = named_charts([name], document)
            return pointed_manifest(Path(file).read_text().splitlines(), chart, document["images"], prefix)
        case _:
            print(__doc__, file=sys.stderr)
            raise SystemExit(2)


if __name__ == "__main__":
    for line in lines(sys.argv[1:], read_list(), read_lock()):
        print(line)
