"""The checks. Each judges one property of every node from the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from trainway.verify.all_reduce import floor_of
from trainway.verify.dcgm import count_tests, dcgm_faults
from trainway.verify.facts import Facts
from trainway.verify.nccl_log import NodeNetwork, Transport
from trainway.verify.results import Result, Status

Check = Callable[[Facts], Iterator[Result]]

MOST_SKEW_SECONDS = 1.0
"""Maximum difference between clocks. Chrony on EC2 keeps clocks within a millisecond of the Amazon Time Sync Service.

Leaving a barrier takes a few milliseconds. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/set-time.html (read
2026-11-21)
"""
LEAST_LOCKED_BYTES = 16 * 2**30
"""Minimum of lockable memory. A process registers gigabytes with EFA.

With the usual limit of 64 KiB or 8 MiB it fails at once.
https://github.com/ofiwg/libfabric/blob/main/prov/efa/docs/overview.md (read 2026-11-21)
"""


def run_checks(facts: Facts, checks: Sequence[Check] | None = None) -> tuple[Result, ...]:
    """Return the results of every check, in order."""
    return tuple(result for check in (CHECKS if checks is None else checks) for result in check(facts))


def every_node_answered(facts: Facts) -> Iterator[Result]:
    """Check that the probe ran on the requested number of nodes."""
    found = len({each.node for each in facts.nodes})
    enough = found >= facts.expected.nodes
    sentence = f"{found} of {facts.expected.nodes} nodes answered"
    yield Result("nodes", None, Status.OK if enough else Status.FAILED, sentence)


def devices_are_allocatable(facts: Facts) -> Iterator[Result]:
    """Check that all GPUs and EFA devices of every node are allocatable in Kubernetes."""
    wanted = facts.expected.instance.devices
    if not facts.allocatable:
        yield Result("allocatable", None, Status.SKIPPED, "no Kubernetes counts them, or one may not look")
    for node, devices in facts.allocatable.items():
        short = [
            f"{devices.get(name, 0)} of {count} {name}"
            for name, count in wanted.items()
            if devices.get(name, 0) < count
        ]
        every = ", ".join(f"{count} {name}" for name, count in wanted.items())
        yield _judge("allocatable", node, not short, f"{every} can be asked for", f"only {', '.join(short)}")


def efa_devices_are_there(facts: Facts) -> Iterator[Result]:
    """Check that libfabric finds all EFA devices of the node in the container."""
    wanted = facts.expected.instance.efa_interfaces
    for node in facts.nodes:
        if not wanted:
            yield Result("efa devices", node.node, Status.SKIPPED, f"{facts.expected.instance.name} has no EFA")
            continue
        inside = (
            "" if node.uverbs else "; there is no /dev/infiniband in the container: the job has to ask for the devices"
        )
        if node.uverbs and not node.efa_devices:
            inside = "; the devices are in the container, and libfabric has no efa provider for them"
        yield _judge(
            "efa devices",
            node.node,
            node.efa_devices >= wanted,
            f"libfabric finds {node.efa_devices}",
            f"libfabric finds {node.efa_devices} of {wanted}{inside}",
        )


def gpus_are_there(facts: Facts) -> Iterator[Result]:
    """Check that PyTorch finds all GPUs of the node."""
    accelerator = facts.expected.instance.accelerator
    if accelerator is None or accelerator.vendor != "nvidia":
        return
    for node in facts.nodes:
        good = node.gpus is not None and node.gpus >= accelerator.count
        yield _judge("gpus", node.node, good, f"{node.gpus} GPUs", f"{node.gpus or 0} of {accelerator.count} GPUs")


def memory_can_be_locked(facts: Facts) -> Iterator[Result]:
    """Check that the job may lock the memory that EFA registers."""
    if not facts.expected.instance.efa_interfaces:
        return
    for node in facts.nodes:
        limit = node.memlock_bytes
        good = limit < 0 or limit >= LEAST_LOCKED_BYTES
        yield _judge(
            "locked memory",
            node.node,
            good,
            "no limit" if limit < 0 else f"{limit / 2**30:.0f} GiB",
            f"`ulimit -l` allows {limit // 1024} KiB; it has to say unlimited",
        )


def versions_go_together(facts: Facts) -> Iterator[Result]:
    """Check that the image has the versions of the matrix."""
    if not facts.expected.versions:
        yield Result("versions", None, Status.SKIPPED, "the image is not one of the matrix")
        return
    for node in facts.nodes:
        found = {name: getattr(node, name) for name in facts.expected.versions}
        other = [
            f"{name} is {found[name] or 'not there'}, expected {wanted}"
            for name, wanted in facts.expected.versions.items()
            if found[name] != wanted
        ]
        every = ", ".join(f"{name} {version}" for name, version in found.items())
        yield _judge("versions", node.node, not other, every, "; ".join(other))


def nccl_uses_efa(facts: Facts) -> Iterator[Result]:
    """Check in NCCL's log that data goes over EFA, with GPUDirect RDMA if the type has it."""
    yield from network_results(facts.networks.values(), facts)


def network_results(networks: Iterable[NodeNetwork], facts: Facts) -> Iterator[Result]:
    """Yield the transport of each node in NCCL's log, and the reason if it is TCP."""
    instance, many = facts.expected.instance, facts.expected.nodes > 1
    wants_efa = instance.efa_interfaces > 0
    spoke = False
    for network in networks:
        spoke = True
        yield _network_result(network, wants_efa=wants_efa, wants_direct=_reads_gpus(facts), many=many)
    if not spoke:
        status = Status.FAILED if wants_efa and many else Status.SKIPPED
        yield Result("nccl", None, status, "NCCL said nothing; it does where NCCL_DEBUG is INFO")


def all_reduce_is_fast(facts: Facts) -> Iterator[Result]:
    """Check that the all-reduce over all nodes is correct and reaches the bandwidth required of the instance type."""
    if facts.sweep is None:
        yield Result("all-reduce", None, Status.FAILED, "it did not come to its end: no size was measured")
        return
    size, busbw = facts.sweep.best
    measured = f"{busbw:.1f} GB/s at {size / 2**20:g} MiB"
    if facts.sweep.wrong:
        yield Result("all-reduce", None, Status.FAILED, f"{facts.sweep.wrong} values of its results are wrong")
    elif facts.expected.nodes < 2:
        yield Result("all-reduce", None, Status.SKIPPED, f"{measured} within one node, of which no bandwidth is asked")
    else:
        floor = floor_of(facts.expected.instance, facts.expected.nodes)
        least = f"{floor.busbw:.1f} GB/s, {floor.because}"
        good = busbw >= floor.busbw
        yield _judge("all-reduce", None, good, f"{measured}; at least {least}", f"{measured}, and not {least}")


def file_system_is_written_and_read(facts: Facts) -> Iterator[Result]:
    """Check that every node can write to the file system and read the data back."""
    for node in facts.nodes:
        found = node.file_system
        if found is None:
            yield Result("file system", node.node, Status.SKIPPED, "it was not tried")
            continue
        good = found.error is None and found.write_mbps is not None
        speed = f"{found.path}: {found.write_mbps or 0:.0f} MB/s written, {found.read_mbps or 0:.0f} MB/s read"
        yield _judge("file system", node.node, good, speed, f"{found.path}: {found.error}")


def clocks_agree(facts: Facts) -> Iterator[Result]:
    """Check that the nodes' clocks agree.

    AWS refuses requests from a clock that is minutes off, and logs are ordered by their times.
    """
    for node in facts.nodes:
        offset = node.clock_offset_seconds
        if offset is None:
            yield Result("clock", node.node, Status.SKIPPED, "it was not compared")
            continue
        words = f"{offset * 1000:+.0f} ms from the first node's"
        more = f"{words}; at most {MOST_SKEW_SECONDS * 1000:.0f} ms: `chronyc tracking` on the node says why"
        yield _judge("clock", node.node, abs(offset) <= MOST_SKEW_SECONDS, words, more)


def gpus_are_healthy(facts: Facts) -> Iterator[Result]:
    """Check that dcgmi's diagnostic finds no fault."""
    accelerator = facts.expected.instance.accelerator
    if accelerator is None or accelerator.vendor != "nvidia":
        return
    for node in facts.nodes:
        if node.dcgm is None:
            yield Result(
                "gpu health", node.node, Status.SKIPPED, "dcgmi is not in the image, or cannot reach its engine"
            )
            continue
        faults = dcgm_faults(node.dcgm)
        words = "; ".join(f"{each.entity} failed {each.test}: {each.words}" for each in faults)
        yield _judge("gpu health", node.node, not faults, f"{count_tests(node.dcgm)} tests of dcgmi passed", words)


CHECKS: Sequence[Check] = (
    every_node_answered,
    devices_are_allocatable,
    efa_devices_are_there,
    gpus_are_there,
    memory_can_be_locked,
    versions_go_together,
    nccl_uses_efa,
    all_reduce_is_fast,
    file_system_is_written_and_read,
    clocks_agree,
    gpus_are_healthy,
)


def _judge(check: str, node: str | None, good: bool, right: str, wrong: str) -> Result:
    return Result(check, node, Status.OK if good else Status.FAILED, right if good else wrong)


def _reads_gpus(facts: Facts) -> bool:
    """Return whether EFA can access the GPUs' memory: on the P types from P4d on, which are those with NVLink.

    https://github.com/aws/aws-ofi-nccl/issues/547 (its maintainer, 2025-08-12; read 2026-11-21)
    """
    accelerator = facts.expected.instance.accelerator
    return accelerator is not None and accelerator.nvlink_domain is not None


def _network_result(network: NodeNetwork, *, wants_efa: bool, wants_direct: bool, many: bool) -> Result:
    channels = sum(network.channels.values())
    by = f"provider {network.provider}" + (f", {network.nics} devices" if network.nics else "")
    way = network.transport
    if way is Transport.NONE or not many:
        known = f"; {by}" if network.provider else ""
        return Result("nccl", network.node, Status.SKIPPED, f"no channel to another node{known}")
    words = f"{way} on {channels} connection{'' if channels == 1 else 's'}" + (f" ({by})" if network.provider else "")
    if way is Transport.TCP and wants_efa:
        why = f": {network.warnings[0]}" if network.warnings else ""
        return Result("nccl", network.node, Status.FAILED, f"NET/Socket, which is TCP, and not EFA{why}")
    if way is Transport.EFA and wants_direct:
        off = [device for device, on in network.direct_devices.items() if not on]
        which = f"; GPUDirect RDMA is disabled for {', '.join(off)}" if off else ""
        return Result("nccl", network.node, Status.FAILED, f"{words}, and not straight from the GPU's memory{which}")
    return Result("nccl", network.node, Status.OK, words)
