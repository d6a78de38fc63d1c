"""What the parts of the job name nodes for: devices that CUDA calls broken, and ranks that are slow."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be …", "uncorrectable ECC error"),
        ("Cuda failure 214 'uncorrectable ECC error encountered'", "uncorrectable ECC error"),
        ("CUDA error: uncorrectable NVLink error detected during the execution", "uncorrectable NVLink error"),
        ("CUDA error: device-side assert triggered", None),
        ("CUDA error: an illegal memory access was encountered", None),
        ("CUDA error: unspecified launch failure", None),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", None),
    ],
)
def test_only_errors_that_are_of_the_device_name_a_node(said: str, fault: str | None) -> None:
    from training.hosts.device_fault import device_fault

    found = device_fault(RuntimeError(said))
    assert found == (f"a rank ended with an {fault}" if fault else None)


def test_a_rank_with_a_broken_device_names_its_node_once_for_an_attempt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from training import train
    from training.hosts.suspect_nodes import suspicions

    def fail(*_: object) -> bool:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    monkeypatch.setattr(train, "train", fail)
    monkeypatch.setattr("training.config.load", lambda _: None)
    monkeypatch.setenv("NODE_NAME", "ip-10-0-16-8")
    monkeypatch.setattr(train, "directory_of", lambda _: tmp_path)
    monkeypatch.setattr("sys.argv", ["training.train", "--config", "job.yaml"])
    for port, count in (("4001", 1), ("4001", 1), ("4002", 2)):
        monkeypatch.setenv("MASTER_PORT", port)
        with pytest.raises(RuntimeError):
            train.main()
        assert len(suspicions(tmp_path, "ip-10-0-16-8")) == count


def test_a_straggler_names_its_node(tmp_path: Path) -> None:
    from training.hosts.suspect_nodes import suspicions
    from training.observe.reports import Reports
    from training.observe.stragglers import Straggler

    class Told:
        def stragglers(self, step: int, found: list[Straggler]) -> None:
            """Take the event."""

    slow = Straggler(11, "ip-10-0-16-8 i-0123456789abcdef0", 3, "NVIDIA H200", "backward", 1.2, 51, 0.0)
    reports = Reports(Told(), 32, None, run=tmp_path)  # type: ignore[arg-type]
    reports._straggling(151, [slow])
    reports._straggling(201, [slow])
    reports._straggling(251, [])
    (found,) = suspicions(tmp_path, "ip-10-0-16-8")
    assert found.reason == "rank 11 is slow since step 51, most of it in backward"


def test_a_switch_that_fails_names_no_node() -> None:
    from training.observe.hang_report import RankRecord, named_nodes, suspects

    def of(silent: set[int], nodes: int) -> dict[str, str]:
        records = [
            RankRecord(
                rank, f"pod-{rank // 2}", 100, 99, 7, "a step", "" if rank in silent else "x", node=f"n{rank // 2}"
            )
            for rank in range(2 * nodes)
        ]
        return named_nodes(suspects(records), nodes)

    assert of({4, 5}, 4) == {"n2": "hang: ranks 4, 5 do not answer, at step 7"}
    assert of({1}, 1) == {"n0": "hang: rank 1 does not answer, at step 7"}
    assert list(of({0, 2}, 4)) == ["n0", "n1"]
    assert of({0, 2, 4}, 4) == {}
    assert of(set(), 4) == {}
