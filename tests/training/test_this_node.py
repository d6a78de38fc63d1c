"""Rank 0 knows the nodes of a run by their names and instances, without a collective."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_rank_0_learns_every_node_and_the_others_wait_for_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

    from training.hosts import this_node
    from training.hosts.this_node import nodes_of_run

    store, tag = HashStore(), tmp_path / "board_asset_tag"
    monkeypatch.setattr(this_node, "ASSET_TAG", tag)
    monkeypatch.setenv("GROUP_WORLD_SIZE", "3")
    for group_rank, local_rank, name, content in (
        (2, 0, "hyperpod-i-0391f86fa0fe0d465", "i-0391f86fa0fe0d465\n"),
        (1, 0, "ip-10-1-0-7", "Not Specified\n"),
        (1, 1, "never asked", ""),
        (0, 1, "never asked", ""),
    ):
        tag.write_text(content)
        monkeypatch.setenv("NODE_NAME", name)
        monkeypatch.setenv("GROUP_RANK", str(group_rank))
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        assert nodes_of_run(store, rank=group_rank * 2 + local_rank) == []
    tag.unlink()
    monkeypatch.setenv("NODE_NAME", "first")
    monkeypatch.setenv("LOCAL_RANK", "0")
    found = nodes_of_run(store, rank=0)
    assert found == ["first", "ip-10-1-0-7", "hyperpod-i-0391f86fa0fe0d465 i-0391f86fa0fe0d465"]
