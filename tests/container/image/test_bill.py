"""The list of what the base consists of is a valid document, and has every package of the image."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.container.image.yard import Yard
from trainway.spec.facts.versions import requirements_of
from trainway.spec.loader import load_versions

# The first of these builds the whole image, which takes a minute.
pytestmark = pytest.mark.exhaustive

PYTORCH_LIST = requirements_of("pytorch", load_versions().pytorch[0].version)


def test_the_list_of_packages_is_a_valid_spdx_document(built: Yard):
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    kept = built.root / "ecr/bills/closed.spdx.json"
    assert validate_full_spdx_document(parse_file(str(kept))) == []
    assert built.inside("closed", "cat", "/opt/trainway/sbom.spdx.json") == kept.read_text(encoding="utf-8")


def test_every_package_of_the_image_is_in_its_list_by_name_and_version(built: Yard):
    packages = json.loads((built.root / "ecr/bills/closed.spdx.json").read_text(encoding="utf-8"))["packages"]
    purls = [each["referenceLocator"] for package in packages for each in package.get("externalRefs", ())]
    listed = {purl.partition("?")[0] for purl in purls}
    assert len(listed) == len(purls)
    wanted = {f"pkg:pypi/torch@{built.arguments['cuda']['PYTORCH_VERSION']}"}
    for name in (PYTORCH_LIST, "training.txt", "build-tools.txt"):
        lines = (built.root / "container/requirements" / name).read_text().splitlines()
        pinned = (line.split()[0].partition("==") for line in lines if "==" in line)
        wanted |= {f"pkg:pypi/{each.replace('_', '-').lower()}@{version}" for each, _, version in pinned}
    installed = built.inside("closed", "dpkg-query", "--show", "--showformat=${Package}@${Version}\\n").split()
    wanted |= {f"pkg:deb/ubuntu/{quote(each, safe='.-~@')}" for each in installed}
    assert wanted <= listed and len(installed) > 50
    assert {purl for purl in listed - wanted if not purl.startswith("pkg:pypi/")} == set()
