"""The page that compares the image with AWS's own says of this image what its files say."""

from __future__ import annotations

import re
from pathlib import Path

from trainway.spec.facts.versions import combination_named, images_of, release
from trainway.spec.loader import load_versions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/image-components.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "container/Dockerfile").read_text(encoding="utf-8")
LISTS = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "container/requirements").iterdir())
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)", LISTS, re.MULTILINE))


def column(page: str) -> dict[str, str]:
    """Return this project's column of the page's table, by component."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    return {component: ours for component, ours, *_ in rows if component != "Component"}


def apt_package(name: str) -> str:
    """Return the name of a package if the Dockerfile installs it, or "none"."""
    installed = "".join(re.findall(r"apt-get install --yes --no-install-recommends([^&]+?)\n\n?FROM", DOCKERFILE))
    return name if name in installed.split() else "none"


def wheel(name: str) -> str:
    """Return the version of a Python package in container/requirements, or "none"."""
    return PINS.get(name, "none")


def image() -> dict[str, str]:
    """Return the contents of the CUDA image of the default combination, by component."""
    versions = load_versions()
    chosen = combination_named(versions, versions.default)
    assert chosen
    images, pytorch = images_of(versions, chosen), release(versions.pytorch, chosen.pytorch)
    installer = release(versions.efa_installers, chosen.efa_installer)
    assert images and pytorch and installer, "VERSION_RULES let nothing else pass"
    system = re.search(r"/ubuntu:(\d\d\.\d\d)@", images.base)
    user = re.search(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)
    assert system and user
    hashed = all("--hash=" in each for each in re.findall(r"^\S+==.*\n.*", LISTS, re.MULTILINE))
    return {
        "Distribution": f"Ubuntu {system[1]}",
        "Python": images.python,
        "PyTorch": chosen.pytorch,
        "torchvision, torchaudio": wheel("torchvision"),
        "CUDA": pytorch.cuda,
        "NCCL": pytorch.nccl,
        "EFA installer": chosen.efa_installer,
        "libfabric": installer.libfabric,
        "aws-ofi-nccl": installer.aws_ofi_nccl,
        "NCCL's tests": chosen.nccl_tests,
        "Transformer Engine": chosen.transformer_engine,
        "FlashAttention": chosen.flash_attention,
        "NeMo AutoModel": chosen.nemo,
        "DeepSpeed": wheel("deepspeed"),
        "GDRCopy": chosen.gdrcopy,
        "CUDA forward compatibility": apt_package("cuda-compat"),
        "Mountpoint connector for PyTorch": wheel("s3torchconnector"),
        "C and C++ compiler": apt_package("g++"),
        "SSH server": apt_package("openssh-server"),
        "User": user[1],
        "Checksums of packages": "every package" if hashed else "some",
    }


def test_the_page_says_what_is_in_the_image():
    assert column(PAGE) == image()


def test_another_version_on_the_page_is_found():
    assert column(PAGE.replace("| 1.49.0 |", "| 1.48.0 |", 1)) != image()
