"""Read NCCL's log at NCCL_DEBUG=INFO: the provider, the devices, and the transport of every channel.

NCCL does not fail without EFA. It falls back to TCP without an error, and only this log shows it. A line is
`host:pid:tid [device] NCCL INFO words`, possibly after a time or a label. A channel between nodes is `Channel 00/0 :
8[0] -> 0[0] [receive] via NET/<network>/<device>[/GDRDMA]`. A channel inside a node is via P2P or SHM.
https://github.com/NVIDIA/nccl/blob/master/src/debug.cc, src/transport/net.cc, src/init.cc,
https://github.com/aws/aws-ofi-nccl/blob/master/src/nccl_ofi_net.cpp (read 2026-11-21)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_LINE = re.compile(
    r"(?:(?P<host>[A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] (?:.*? )?)?NCCL (?P<level>INFO|WARN) (?P<words>.*)$", re.MULTILINE
)
_VERSION = re.compile(r"^NCCL version (\S+?)(?:\+cuda(?P<cuda>[\d.]+))?$")
_PLUGIN = re.compile(r"^NET/OFI (?:Initializing|Using) aws-ofi-nccl (?P<version>\S+)")
_LIBFABRIC = re.compile(r"^NET/OFI Using Libfabric version (?P<version>[\d.]+)")
_PROVIDER = re.compile(
    r"^NET/OFI Selected [Pp]rovider is (?P<provider>[\w;]+)\*?(?:, fabric is (?P<fabric>[\w-]+))?"
    r"(?: \(found (?P<nics>\d+) nics\))?"
)
_PROTOCOL = re.compile(r"^NET/OFI Using transport protocol (?P<protocol>\w+)")
_NETWORK = re.compile(r"^Using network (?P<network>.+)$")
_CHANNEL = re.compile(
    r"^Channel \S+ : \d+\[\w+\] -> \d+\[\w+\] \[(?:send|receive)\] via NET/(?P<network>[^/]+)/\d+(?:\(\d+\))?"
    r"(?P<direct>/GDRDMA)?"
)
_DIRECT = re.compile(r"^NET/[^:]+ : GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA \d+ '(?P<device>[^']+)'")
_COMMUNICATOR = re.compile(r"\bnNodes (?P<nodes>\d+)\b")
UNNAMED = "a node that the log does not name"


class Transport(StrEnum):
    """Transport of a node's data to other nodes."""

    EFA_DIRECT = "EFA with GPUDirect RDMA"
    EFA = "EFA through host memory"
    TCP = "TCP"
    OTHER = "another network"
    NONE = "none"
    """The log shows no data sent to another node."""


@dataclass
class NodeNetwork:
    """NCCL's messages on one node. A field is None if NCCL did not log it.

    `channels` counts the ends of channels to other nodes, by NCCL's name of the network and whether GPU memory is
    accessed directly. `warnings` are NCCL's own, without repetitions.
    """

    node: str
    nccl: str | None = None
    cuda: str | None = None
    plugin: str | None = None
    libfabric: str | None = None
    provider: str | None = None
    fabric: str | None = None
    nics: int | None = None
    protocol: str | None = None
    network: str | None = None
    nodes: int = 0
    channels: dict[tuple[str, bool], int] = field(default_factory=dict)
    direct_devices: dict[str, bool] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def transport(self) -> Transport:
        """Return the slowest transport among its channels.

        Without channels, return the transport of the chosen network.
        """
        ways = {_way(network, direct=direct, provider=self.provider) for network, direct in self.channels}
        for way in (Transport.TCP, Transport.OTHER, Transport.EFA, Transport.EFA_DIRECT):
            if way in ways:
                return way
        # Without channels, use the chosen network. Only TCP is certain to be wrong.
        return Transport.TCP if self.network == "Socket" and self.nodes > 1 else Transport.NONE


def read_nccl_log(text: str, node: str = UNNAMED) -> tuple[NodeNetwork, ...]:
    """Return NCCL's messages by node, in order of appearance. Lines without a host belong to `node`."""
    found: dict[str, NodeNetwork] = {}
    for host, level, words in _said(text):
        network = found.setdefault(host or node, NodeNetwork(host or node))
        if level == "WARN":
            if words not in network.warnings:
                network.warnings.append(words)
        else:
            _note(network, words)
    return tuple(found.values())


def _said(text: str) -> Iterator[tuple[str | None, str, str]]:
    for line in _LINE.finditer(text):
        yield line["host"], line["level"], line["words"].strip()


def _note(network: NodeNetwork, words: str) -> None:
    if channel := _CHANNEL.match(words):
        way = (channel["network"], bool(channel["direct"]))
        network.channels[way] = network.channels.get(way, 0) + 1
    elif version := _VERSION.match(words):
        network.nccl, network.cuda = version[1], version["cuda"]
    elif plugin := _PLUGIN.match(words):
        network.plugin = plugin["version"].rstrip(".")
    elif libfabric := _LIBFABRIC.match(words):
        network.libfabric = libfabric["version"]
    elif provider := _PROVIDER.match(words):
        network.provider, network.fabric = provider["provider"], provider["fabric"]
        network.nics = int(provider["nics"]) if provider["nics"] else None
    elif protocol := _PROTOCOL.match(words):
        network.protocol = protocol["protocol"]
    elif chosen := _NETWORK.match(words):
        network.network = chosen["network"].strip()
    elif direct := _DIRECT.match(words):
        network.direct_devices[direct["device"]] = direct["state"] == "Enabled"
    elif communicator := _COMMUNICATOR.search(words):
        network.nodes = max(network.nodes, int(communicator["nodes"]))


def _way(network: str, *, direct: bool, provider: str | None) -> Transport:
    """Return the transport of a network. The plugin's network is AWS Libfabric, or Libfabric since aws-ofi-nccl 1.14.

    Its provider can be TCP.
    """
    if network == "Socket":
        return Transport.TCP
    if not network.endswith("Libfabric"):
        return Transport.OTHER
    if provider is not None and not provider.startswith("efa"):
        return Transport.TCP if "tcp" in provider else Transport.OTHER
    return Transport.EFA_DIRECT if direct else Transport.EFA


def by_node(networks: tuple[NodeNetwork, ...]) -> Mapping[str, NodeNetwork]:
    """Return NCCL's log lines by the name of the node."""
    return {each.node: each for each in networks}
