"""Whoever can write to the checkpoints cannot run code in the next resume."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.checkpoints import IDENTITY, save, trained

pytestmark = pytest.mark.usefixtures("one_rank")


class Attack:
    """An object whose unpickling creates a directory."""

    def __init__(self, proof: Path) -> None:
        self._proof = str(proof)

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self._proof,)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Checkpoints of the steps 1 and 2."""
    from training.checkpoint import Progress

    location = tmp_path / "checkpoints"
    for step in (1, 2):
        save(str(location), trained(seed=0, steps=1), Progress(step, 8 * step, 2.0))
    return location


def resumed_step(location: Path) -> int:
    from training import checkpoint

    resumed = checkpoint.resume(str(location), None, *trained(seed=1, steps=0), IDENTITY)
    assert resumed is not None
    return resumed.progress.step


def in_metadata(directory: Path, attack: Attack) -> None:
    """Replace the metadata, with a checksum as its writer would compute it."""
    from training.checkpoint import COMMIT
    from training.checkpoint.metadata_file import sealed

    (directory / COMMIT).write_bytes(sealed(pickle.dumps(attack)))


def behind_metadata(directory: Path, attack: Attack) -> None:
    """Put the attack into the metadata, as one more value of it, without a checksum."""
    from training.checkpoint import COMMIT
    from training.checkpoint.metadata_file import load_metadata

    metadata = load_metadata(io.BytesIO((directory / COMMIT).read_bytes()))
    metadata.planner_data = attack
    (directory / COMMIT).write_bytes(pickle.dumps(metadata))


def in_a_value(directory: Path, attack: Attack) -> None:
    """Replace the step that the checkpoint holds, with the checksum that belongs to it."""
    import torch

    from training.checkpoint import COMMIT
    from training.checkpoint.checksum import crc32
    from training.checkpoint.metadata_file import load_metadata, sealed

    metadata = load_metadata(io.BytesIO((directory / COMMIT).read_bytes()))
    stream = io.BytesIO()
    torch.save(attack, stream)
    content = stream.getvalue() + bytes.fromhex(crc32(stream.getvalue()))
    for index, part in metadata.storage_data.items():
        if index.fqn == "run.step":
            part.relative_path, part.offset, part.length = "__9_9.distcp", 0, len(content)
    (directory / "__9_9.distcp").write_bytes(content)
    (directory / COMMIT).write_bytes(sealed(pickle.dumps(metadata)))


@pytest.mark.parametrize("plant", [in_metadata, behind_metadata, in_a_value])
def test_an_attack_in_a_checkpoint_is_skipped_and_not_executed(
    plant: Callable[[Path, Attack], None], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = tmp_path / "executed"
    plant(saved / "step-00000002", Attack(proof))
    assert resumed_step(saved) == 1
    assert not proof.exists()
    warning = capsys.readouterr().err
    assert "step-00000002" in warning
    assert "mkdir" in warning, "the warning names the function that the file wants to call"


class Attribute:
    """An object whose unpickling asks for an attribute, as a member of an enumeration does in Python 3.11.2."""

    def __init__(self, owner: object, name: str) -> None:
        self._asked = owner, name

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, str]]:
        return getattr, self._asked


def test_a_checkpoint_of_python_3_11_2_is_read(saved: Path) -> None:
    """The test creates what that version writes, and reads it with the version that runs the test."""
    from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING

    from training.checkpoint import COMMIT
    from training.checkpoint.metadata_file import load_metadata

    metadata = load_metadata(io.BytesIO((saved / "step-00000002" / COMMIT).read_bytes()))
    metadata.planner_data = Attribute(_MEM_FORMAT_ENCODING, "TORCH_CHANNELS_LAST")
    read = load_metadata(io.BytesIO(pickle.dumps(metadata)))
    assert read.planner_data is _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST


@pytest.mark.parametrize(
    ("owner", "name"),
    [("Metadata", "__init__"), ("_MEM_FORMAT_ENCODING", "__members__"), ("_MEM_FORMAT_ENCODING", "mro")],
)
def test_no_other_attribute_is_read(owner: str, name: str) -> None:
    from torch.distributed.checkpoint import metadata as torch_metadata

    from training.checkpoint.metadata_file import load_metadata

    with pytest.raises(pickle.UnpicklingError, match=f"asks for {name} of .*may be an attack"):
        load_metadata(io.BytesIO(pickle.dumps(Attribute(getattr(torch_metadata, owner), name))))


def test_the_attack_succeeds_in_pytorchs_own_reader(saved: Path, tmp_path: Path) -> None:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    proof = tmp_path / "executed"
    in_metadata(saved / "step-00000002", Attack(proof))
    with pytest.raises(AttributeError):
        FileSystemReader(saved / "step-00000002").read_metadata()
    assert proof.exists()


def test_every_byte_of_the_metadata_is_under_its_checksum(saved: Path) -> None:
    from training.checkpoint import COMMIT
    from training.checkpoint.metadata_file import SEAL, load_metadata

    file = saved / "step-00000002" / COMMIT
    content = file.read_bytes()
    for position in (0, len(content) // 2, len(content) - len(SEAL) - 5, len(content) - 1):
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(OSError, match="the checksum of its content is"):
            load_metadata(io.BytesIO(bytes(changed)))
    for length in (0, 100, len(content) - 1):
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            load_metadata(io.BytesIO(content[:length]))


def test_pytorch_reads_the_checkpoint_and_the_job_reads_pytorchs(saved: Path) -> None:
    from torch.distributed.checkpoint import state_dict_loader
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    from training.checkpoint import COMMIT
    from training.checkpoint.checksum import Checksum
    from training.checkpoint.metadata_file import SEAL

    run: dict[str, Any] = {"step": 0}
    theirs = FileSystemReader(saved / "step-00000002")
    theirs.transforms.extension_registry.register(Checksum)
    state_dict_loader.load({"run": run}, storage_reader=theirs)
    assert run["step"] == 2
    file = saved / "step-00000002" / COMMIT
    file.write_bytes(file.read_bytes()[: -len(SEAL) - 4])
    assert resumed_step(saved) == 2
