"""Write what the image consists of as an SPDX document: bill_of_materials.py FILE BASE_IMAGE.

The document has the packages of the distribution, those of Python, and the image that the image begins with. The same
packages give the same document: its date is SOURCE_DATE_EPOCH (seconds).

https://spdx.github.io/spdx-spec/v2.3/ and https://github.com/package-url/purl-spec (read 2026-11-23)
"""

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

RECORD = "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n"


def of_the_distribution(listed: str, release: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the packages that dpkg has installed, from what `dpkg-query --show --showformat=RECORD` prints."""
    found = []
    for line in listed.splitlines():
        state, name, version, architecture = line.split("\t")
        if state.strip() == "ii":
            known = (
                f"arch={architecture}&distro={quote(release['ID'])}-{quote(release.get('VERSION_ID', ''), safe='.')}"
            )
            purl = f"pkg:deb/{quote(release['ID'])}/{_version(name)}@{_version(version)}?{known}"
            found.append(_package("deb", name, version, purl))
    return found


def of_python(distributions: Iterable[importlib.metadata.Distribution]) -> list[dict[str, Any]]:
    """Return Python's packages. The first of a name is the one that is imported."""
    found: dict[str, dict[str, Any]] = {}
    for each in distributions:
        name = re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower()
        found.setdefault(name, _package("pypi", name, each.version, f"pkg:pypi/{name}@{_version(each.version)}"))
    return list(found.values())


def document(packages: Iterable[dict[str, Any]], base_image: str, date: datetime) -> dict[str, Any]:
    """Return the SPDX document of an image with the packages."""
    image = _package("image", "trainway-training-base", None, None)
    base = _package("image", base_image.partition("@")[0], base_image.partition("@")[2] or None, None)
    contained = sorted([*packages, base], key=lambda each: str(each["SPDXID"]))
    content = hashlib.sha256(json.dumps(contained, sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "trainway-training-base",
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "creationInfo": {"created": f"{date:%Y-%m-%dT%H:%M:%SZ}", "creators": ["Tool: trainway"]},
        "packages": [image, *contained],
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", image),
            *(_relationship(image["SPDXID"], "CONTAINS", each) for each in contained),
        ],
    }


def _version(version: str) -> str:
    return quote(version, safe=".-~")


def _package(kind: str, name: str, version: str | None, purl: str | None) -> dict[str, Any]:
    """Return a package of the document. An identifier has letters, digits, dots, and hyphens only."""
    unique = hashlib.sha256(f"{kind} {name} {version} {purl}".encode()).hexdigest()[:8]
    package: dict[str, Any] = {
        "SPDXID": f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}-{unique}",
        "name": name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
    }
    if version:
        package["versionInfo"] = version
    if purl:
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        package["externalRefs"] = [reference]
    return package


def _relationship(of: str, kind: str, to: Mapping[str, Any]) -> dict[str, str]:
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to["SPDXID"]}


def _release(text: str) -> dict[str, str]:
    """Return the names and values of /etc/os-release."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def main(file: Path, base_image: str) -> None:
    """Write the document of this system and this Python."""
    query = ["dpkg-query", "--show", f"--showformat={RECORD}"]
    listed = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    release = _release(Path("/etc/os-release").read_text(encoding="utf-8"))
    packages = of_the_distribution(listed, release) + of_python(importlib.metadata.distributions())
    date = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    file.write_text(json.dumps(document(packages, base_image, date), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
