"""`trainway image lock` resolves packages beside those of the image, by uv and an index of stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.container import stand_ins
from trainway.delivery import package_lock
from trainway.delivery.additions import write_additions
from trainway.delivery.package_lock import image_packages, lock_packages
from trainway.delivery.resolution import found_uv
from trainway.spec.errors import UsageError
from trainway.spec.loader import load_platform, load_versions
from trainway.spec.package_lock import package_lock_file

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = (ROOT / "examples/eks-p5.yaml").read_text(encoding="utf-8")
JOB = ("boto3", "numpy", "pydantic", "pyyaml", "s3torchconnector", "safetensors", "tensorboard", "tokenizers", "torch")
IMAGE = image_packages(load_platform(ROOT / "examples/eks-p5.yaml"), load_versions())


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index of the image's packages, of newer ones, and of some that require them."""
    site = tmp_path_factory.mktemp("site")
    simple = site / "simple"
    for name in (*JOB, "protobuf", "networkx"):
        stand_ins.wheel(simple, name, IMAGE[name], {f"{name}.py": ""})
    for name, version in {"networkx": "99.0", "protobuf": "6.0", "numpy": "1.26.4"}.items():
        stand_ins.wheel(simple, name, version, {f"{name}.py": ""})
    stand_ins.wheel(simple, "modest", "1.0", {"modest.py": ""}, "Requires-Dist: numpy\nRequires-Dist: networkx\n")
    stand_ins.wheel(simple, "older", "1.0", {"older.py": ""}, "Requires-Dist: numpy<2\n")
    stand_ins.wheel(simple, "choosy", "1.0", {"choosy.py": ""}, "Requires-Dist: protobuf<7\nRequires-Dist: networkx\n")
    with stand_ins.served(site) as url, found_uv() as uv, pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_DEFAULT_INDEX", f"{url}/simple")
        # Installed once for all tests.
        patch.setattr(package_lock, "installed_uv", lambda: nullcontext(uv))
        yield simple


def platform_file(folder: Path, *packages: str) -> Path:
    file = folder / "platform.yaml"
    file.write_text(f"{EXAMPLE}\nimage: {{packages: {{pip: [{', '.join(packages)}]}}}}\n", encoding="utf-8")
    return file


@pytest.mark.exhaustive
def test_a_lock_has_what_the_image_lacks_and_is_what_a_deploy_takes(index: Path, tmp_path: Path):
    file = platform_file(tmp_path, "modest==1.0")
    written = lock_packages(load_platform(file, locked=False), file)
    assert (written.added, written.changed) == (("modest==1.0",), ())
    package_lock_file(file).write_text(written.text)
    checksum = stand_ins.sha256(index / "modest/modest-1.0-py3-none-any.whl")
    write_additions(load_platform(file), tmp_path / "additions")
    assert f"modest==1.0 \\\n    --hash=sha256:{checksum}\n" in (tmp_path / "additions/pip.txt").read_text()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_a_package_that_would_change_numpy_is_refused_by_its_name(tmp_path: Path):
    file = platform_file(tmp_path, "older")
    with pytest.raises(UsageError) as error:
        lock_packages(load_platform(file, locked=False), file)
    said = str(error.value)
    assert "the packages older do not fit into the image" in said
    assert "all versions of older depend on numpy<2" in said
    assert f"numpy {IMAGE['numpy']}" in said


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_no_more_of_the_image_changes_than_has_to(tmp_path: Path):
    file = platform_file(tmp_path, "choosy")
    written = lock_packages(load_platform(file, locked=False), file)
    assert written.added == ("choosy==1.0", "protobuf==6.0")
    assert written.changed == (f"protobuf=={IMAGE['protobuf']}",)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("index")
def test_a_lock_that_is_older_than_the_list_of_the_image_is_not_delivered(tmp_path: Path):
    file = platform_file(tmp_path, "modest==1.0")
    text = lock_packages(load_platform(file, locked=False), file).text
    beginning, _, rest = text.partition("# lists: ")
    package_lock_file(file).write_text(f"{beginning}# lists: {'0' * 16}{rest[16:]}")
    with pytest.raises(UsageError, match="older than the packages of the image"):
        write_additions(load_platform(file), tmp_path / "additions")


def test_a_platform_without_python_packages_needs_no_lock(tmp_path: Path):
    file = tmp_path / "platform.yaml"
    file.write_text(EXAMPLE, encoding="utf-8")
    with pytest.raises(UsageError, match=r"image\.packages\.pip names no packages"):
        lock_packages(load_platform(file), file)
