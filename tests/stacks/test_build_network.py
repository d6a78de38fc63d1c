"""A platform with a proxy: its builds run in the VPC and know the proxy, and a change of it builds no image."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis import ROOT, Template, assembly_in, resources, templates_of

EXAMPLE = ROOT / "examples/eks-p5.yaml"
PROXY = "http://proxy.example.com:3128"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:index-AbCdEf"


def written(tmp_path: Path, **sections: str) -> Path:
    file = tmp_path / "platform.yaml"
    text = EXAMPLE.read_text(encoding="utf-8")
    assert not re.search(r"^(network|image):", text, re.MULTILINE)
    file.write_text(text + "".join(f"\n{name}: {value}\n" for name, value in sections.items()), encoding="utf-8")
    return file


def projects(stacks: dict[str, Template]) -> dict[str, Any]:
    found = {}
    for role, template in stacks.items():
        for name, each in resources(template, "AWS::CodeBuild::Project").items():
            found[f"{role}/{name}"] = each
    return found


def variables(project: Any) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    proxy = f"{{proxy: {{https: '{PROXY}', no_proxy: [.example.com, 10.0.0.0/8]}}}}"
    return written(tmp_path_factory.mktemp("proxied"), network=proxy)


def test_every_build_runs_in_the_vpc_with_the_proxy_and_so_does_its_agent(proxied: Path) -> None:
    found = projects(templates_of(proxied))
    assert {name.partition("/")[0] for name in found} >= {"image", "mirror"} and len(found) >= 4
    for name, project in found.items():
        told = variables(project)
        assert "VpcConfig" in project, name
        assert (told["HTTPS_PROXY"], told["HTTP_PROXY"]) == (PROXY, PROXY), name
        without = told["NO_PROXY"].split(",")
        # CodeBuild's credentials, the Kubernetes API in the VPC, and what the file adds.
        assert {"169.254.170.2", ".eks.amazonaws.com", ".example.com", "10.0.0.0/8"} <= set(without), name
        assert json.loads(project["Source"]["BuildSpec"])["proxy"] == {"upload-artifacts": "yes", "logs": "yes"}, name


def test_without_a_proxy_builds_know_none() -> None:
    for project in projects(templates_of(EXAMPLE)).values():
        assert not {"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"} & set(variables(project))
        assert "proxy" not in json.loads(project["Source"]["BuildSpec"])


def tags(file: Path) -> set[str]:
    image = templates_of(file)["image"]
    found = [variables(each) for each in resources(image, "AWS::CodeBuild::Project").values()]
    return {each[name] for each in found for name in ("BASE_TAG", "IMAGE_TAG") if name in each}


def test_neither_the_proxy_nor_the_index_is_content_of_the_image(proxied: Path, tmp_path: Path) -> None:
    index = f"{{build: {{pip_index: 'https://nexus.example.com/simple', pip_login: {{secret: '{SECRET}'}}}}}}"
    indexed = written(tmp_path, image=index)
    assert tags(proxied) == tags(indexed) == tags(EXAMPLE)
    [base] = [
        each
        for each in map(variables, resources(templates_of(indexed)["image"], "AWS::CodeBuild::Project").values())
        if "PIP_INDEX" in each
    ]
    assert (base["PIP_INDEX"], base["PIP_INDEX_SECRET"]) == ("https://nexus.example.com/simple", SECRET)


def test_the_bundles_of_the_image_and_the_mirror_have_the_authorities(proxied: Path) -> None:
    bundles = assembly_in(proxied) / "bundles"
    for name in ("image", "mirror", "cluster"):
        scripts = bundles / name / "lifecycle_scripts"
        assert (scripts / "certificates.py").exists() and (scripts / "yours/certificates").is_dir(), name
