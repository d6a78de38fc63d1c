"""NCCL's own words are read as they are: over EFA, over TCP, and both at once; logs/sources.yaml has their sources."""

from __future__ import annotations

from pathlib import Path

import yaml

from trainway.verify.nccl_log import Transport, by_node, read_nccl_log

LOGS = Path(__file__).parent / "logs"


def read(name: str) -> str:
    return (LOGS / name).read_text()


def test_pods_on_efa_use_gpudirect_rdma() -> None:
    (node,) = read_nccl_log(read("efa-p4d-pods.log"))
    assert node.node == "llama-3-8b-node-0-0"
    assert (node.provider, node.fabric, node.nics) == ("efa", "efa", 1)
    assert (node.plugin, node.libfabric, node.protocol) == ("1.16.2", "2.1", "SENDRECV")
    assert node.nodes == 4
    assert node.channels == {("Libfabric", True): 4}
    assert node.transport is Transport.EFA_DIRECT


def test_each_of_two_hosts_has_what_was_said_on_it() -> None:
    nodes = by_node(read_nccl_log(read("efa-p5en-hosts.log")))
    assert nodes["8h200-3"].nics == 16
    assert nodes["8h200-2"].nccl == "2.23.4"
    assert nodes["8h200-2"].cuda == "12.4"
    # The name of the plugin's network before aws-ofi-nccl 1.14.
    assert nodes["8h200-2"].channels == {("AWS Libfabric", True): 3}
    assert nodes["8h200-2"].transport is Transport.EFA_DIRECT
    assert nodes["8h200-2"].warnings[0] == "NET/OFI Operation with NULL context completed with error"


def test_sockets_are_tcp_and_channels_inside_the_node_are_not_counted() -> None:
    (node,) = read_nccl_log(read("sockets.log"))
    assert node.channels == {("Socket", False): 3}
    assert node.transport is Transport.TCP


def test_a_mix_names_the_node_that_fell_back_to_tcp() -> None:
    nodes = by_node(read_nccl_log(read("efa-p4d-pods.log") + read("sockets.log")))
    assert nodes["llama-3-8b-node-0-0"].transport is Transport.EFA_DIRECT
    assert nodes["cluster-1"].transport is Transport.TCP


def test_a_node_alone_that_chose_sockets_sends_nothing_over_them() -> None:
    (node,) = read_nccl_log(read("plugin-failed-p4d.log"))
    assert node.network == "Socket"
    assert node.transport is Transport.NONE
    assert node.warnings == [
        "NET/OFI Failed to initialize sendrecv protocol",
        "NET/OFI aws-ofi-nccl initialization failed",
    ]
    assert node.plugin == "1.17.1"


def test_a_plugin_whose_provider_is_tcp_is_tcp() -> None:
    text = read("provider-tcp.log")
    text += (
        "ip-192-168-16-255:25604:25640 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0\n"
    )
    nodes = by_node(read_nccl_log(text))
    assert nodes["ip-192-168-16-255"].provider == "tcp;ofi_rxm"
    assert nodes["ip-192-168-16-255"].transport is Transport.TCP


def test_without_gpudirect_rdma_the_data_goes_through_host_memory() -> None:
    # As NCCL writes it: src/transport/net.cc leaves /GDRDMA out, src/graph/topo.cc tells the device.
    text = (
        "g5-1:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 1 nics)\n"
        "g5-1:1:2 [0] NCCL INFO NET/Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap0s29'\n"
        "g5-1:1:3 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0\n"
        "g5-1:1:3 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0(1)/Shared\n"
    )
    (node,) = read_nccl_log(text)
    assert node.transport is Transport.EFA
    assert node.channels == {("Libfabric", False): 2}
    assert node.direct_devices == {"rdmap0s29": False}


def test_lines_that_srun_labeled_are_of_the_host_that_they_name() -> None:
    nodes = by_node(read_nccl_log(read("fsdp-slurm.log")))
    assert nodes["p5-dy-gpu-3"].nccl == "2.26.2"
    assert nodes["p5-dy-gpu-4"].plugin == "1.13.2-aws"


def test_every_sample_says_where_it_comes_from() -> None:
    sources = yaml.safe_load(read("sources.yaml"))
    assert set(sources) == {file.name for file in LOGS.iterdir()} - {"sources.yaml"}
    assert all(each.startswith("https://github.com/") for each in sources.values())
