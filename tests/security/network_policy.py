"""Whether the NetworkPolicies of a cluster allow a connection, as Kubernetes defines them.

A pod that no policy selects accepts and opens all connections. A pod that policies select accepts and opens those that
at least one rule of them allows. A connection needs the policies at both of its ends.
https://kubernetes.io/docs/concepts/services-networking/network-policies/ (read 2026-11-24)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Policies = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class End:
    """One end of a connection: a pod of a namespace, or, without a namespace, an address outside the cluster."""

    namespace: str | None
    address: str = "10.0.1.2"
    labels: Mapping[str, str] = field(default_factory=dict)


def connects(policies: Policies, source: End, target: End, port: int) -> bool:
    """Return whether the policies allow a TCP connection. Raises ValueError for a field that is not known here."""
    out = _allowed(policies, source, target, port, "Egress", "to")
    return out and _allowed(policies, target, source, port, "Ingress", "from")


def _allowed(policies: Policies, pod: End, other: End, port: int, direction: str, peers: str) -> bool:
    chosen = [
        each["spec"]
        for each in policies
        if pod.namespace == each["metadata"]["namespace"]
        and direction in each["spec"]["policyTypes"]
        and _selects(each["spec"]["podSelector"], pod.labels)
    ]
    rules = [rule for spec in chosen for rule in spec.get(direction.lower(), [])]
    return not chosen or any(_allows(rule, peers, pod.namespace, other, port) for rule in rules)


def _allows(rule: Mapping[str, Any], peers: str, namespace: str | None, other: End, port: int) -> bool:
    _known(rule, peers, "ports")
    ports = [each["port"] for each in rule.get("ports", []) if each.get("protocol", "TCP") == "TCP"]
    if "ports" in rule and port not in ports:
        return False
    return not rule.get(peers) or any(_is_peer(peer, namespace, other) for peer in rule[peers])


def _is_peer(peer: Mapping[str, Any], namespace: str | None, other: End) -> bool:
    _known(peer, "ipBlock", "namespaceSelector", "podSelector")
    if block := peer.get("ipBlock"):
        ranges = [ipaddress.ip_network(each) for each in (block["cidr"], *block.get("except", []))]
        inside, *excepted = [ipaddress.ip_address(other.address) in each for each in ranges]
        return inside and not any(excepted)
    if other.namespace is None:
        return False
    named = {"kubernetes.io/metadata.name": other.namespace}
    in_namespace = (
        _selects(peer["namespaceSelector"], named) if "namespaceSelector" in peer else other.namespace == namespace
    )
    return in_namespace and _selects(peer.get("podSelector", {}), other.labels)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    _known(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def _known(part: Mapping[str, Any], *keys: str) -> None:
    if unknown := set(part) - set(keys):
        raise ValueError(f"{sorted(unknown)} cannot be evaluated here")
