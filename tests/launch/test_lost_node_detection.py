"""torchrun's agents notice a lost node soon, and do not write the state of the rendezvous too often."""

import pytest

from trainway.launch.program.rank_launchers import many_nodes

INTERVAL_OF_PYTORCH = 5
SIGNS_A_SECOND_OF_1000_NODES = 1000 / INTERVAL_OF_PYTORCH


@pytest.mark.parametrize(
    ("nodes", "seconds"),
    [(2, 8), ("1:4", 8), (200, 8), (201, 8), (400, 8), (401, 9), (800, 12), (801, 15), ("900:1000", 15), (2048, 15)],
)
def test_torchrun_notices_a_lost_node_within_seconds(nodes: int | str, seconds: int) -> None:
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported
    from torch.distributed.elastic.rendezvous.api import RendezvousParameters
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
    from torch.distributed.elastic.rendezvous.utils import _parse_rendezvous_config

    told = many_nodes(nodes, 8, endpoint="first:29500", run="a", max_restarts=0)
    least, _, most = told["PET_NNODES"].rpartition(":")
    conf = _parse_rendezvous_config(told["PET_RDZV_CONF"])
    parameters = RendezvousParameters("c10d", told["PET_RDZV_ENDPOINT"], "a", int(least or most), int(most), **conf)
    store = HashStore()
    settings = create_handler(store, C10dRendezvousBackend(store, "a"), parameters).settings
    assert settings.keep_alive_interval.total_seconds() * settings.keep_alive_max_attempt == seconds
    signs_a_second = int(most) / settings.keep_alive_interval.total_seconds()
    assert signs_a_second <= max(SIGNS_A_SECOND_OF_1000_NODES, int(most) / INTERVAL_OF_PYTORCH)
