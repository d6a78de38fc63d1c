"""Probe the nodes of a job. Every process runs this program, which prints its findings without judging them.

The program is sent as text and run by the image's own Python, so it imports nothing of this project, and PyTorch only
by name. One process per node inspects the node and prints a line of JSON. Then all processes run all-reduces of growing
size, and rank 0 prints the table of NCCL's own tests. Those are MPI programs, and a target does not need MPI to start a
training job. The probe therefore uses the same path as a job: torchrun, PyTorch, and its NCCL.
"""

import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

MARK = "TRAINWAY-PROBE "
MIB = 2**20


def main() -> None:
    """Run what the environment requests. Without a launcher, only inspect the node."""
    facts = node_facts(Path(os.environ.get("TRAINWAY_PROBE_DIRECTORY", "/tmp"))) if local_rank() == 0 else None
    if "RANK" not in os.environ:
        tell(facts)
        return
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    # gloo would otherwise connect each process with all others, which a thousand nodes have no file descriptors for.
    # https://docs.pytorch.org/docs/stable/distributed.html#improving-initialization-time (read 2026-11-23)
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    try:
        # All processes leave the second barrier at nearly the same moment, so the difference of their times is the
        # clock skew. The first barrier makes the connections.
        dist.barrier()
        dist.barrier()
        now: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(now, time.time())
        if facts is not None:
            facts["clock_offset_seconds"] = now[dist.get_rank()] - now[0]
            facts["torch"] = torch.__version__.partition("+")[0]
            facts["gpus"] = torch.cuda.device_count() if on_gpu else 0
            if on_gpu:
                facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
                facts["cuda"] = torch.version.cuda
        tell(facts)
        sweep(torch, dist, device)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def local_rank() -> int:
    """Return the number of this process on its node, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def tell(facts: Any) -> None:
    """Print facts as one line, which can be found among the lines of other processes."""
    if facts is not None:
        print(MARK + json.dumps(facts), flush=True)


def node_facts(directory: Path) -> dict[str, Any]:
    """Return the facts of the node that are visible without PyTorch."""
    import resource

    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    efa = run("fi_info", "-p", "efa", "-t", "FI_EP_RDM")
    return {
        "node": socket.gethostname(),
        "index": int(os.environ.get("GROUP_RANK", "0")),
        "efa_devices": len(set(re.findall(r"^\s*domain: (\S+?)(?:-rdm)?$", efa, re.MULTILINE))),
        "uverbs": len(list(Path("/dev/infiniband").glob("uverbs*"))),
        "libfabric": first(r"^libfabric: (\S+)", run("fi_info", "--version")),
        "aws_ofi_nccl": plugin_version(),
        # -1 means no limit.
        "memlock_bytes": -1 if locked == resource.RLIM_INFINITY else locked,
        "shm_bytes": shutil.disk_usage("/dev/shm").total if Path("/dev/shm").exists() else 0,
        "driver": first(r"^(\S+)", run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")),
        "file_system": file_system(directory),
        "dcgm": dcgm(),
    }


def run(*command: str, seconds: float = 120) -> str:
    """Return the standard output of a command. Empty if the command is missing, fails, or takes too long."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def first(pattern: str, text: str) -> Any:
    """Return the first group of the first match, or None."""
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else None


def plugin_version() -> Any:
    """Return the version of the package with NCCL's plugin for EFA."""
    packages = run("dpkg-query", "--show", "--showformat=${Package} ${Version}\n", "libnccl-ofi*")
    packages += run("rpm", "--query", "--all", "--queryformat=%{NAME} %{VERSION}\n", "libnccl-ofi*")
    return first(r"^libnccl-ofi\S* (\d[\d.]*)", packages)


def file_system(directory: Path) -> dict[str, Any]:
    """Write a file of this node, read it back, and delete it. Bandwidths are in MB/s (10^6)."""
    path, block = directory / f".probe-{socket.gethostname()}-{os.getpid()}", os.urandom(MIB)
    blocks = int(os.environ.get("TRAINWAY_PROBE_FILE_MIB", "256"))
    facts: dict[str, Any] = {"path": str(directory)}
    try:
        began = time.monotonic()
        with path.open("wb") as file:
            for _ in range(blocks):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            # Drop the file from this node's page cache, so that it is read from the file system.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        facts["write_mbps"] = blocks * MIB / 1e6 / (time.monotonic() - began)
        began = time.monotonic()
        with path.open("rb") as file:
            same = all(file.read(MIB) == block for _ in range(blocks))
        facts["read_mbps"] = blocks * MIB / 1e6 / (time.monotonic() - began)
        facts["error"] = None if same else "what was read is not what was written"
    except OSError as error:
        facts["error"] = str(error)
    finally:
        path.unlink(missing_ok=True)
    return facts


def dcgm() -> Any:
    """Return the result of dcgmi's diagnostic at the requested level, or None."""
    level = os.environ.get("TRAINWAY_PROBE_DCGM_LEVEL", "1")
    try:
        return json.loads(run("dcgmi", "diag", "--run", level, "--json", seconds=3600))
    except ValueError:
        return None


def sweep(torch: Any, dist: Any, device: Any) -> None:
    """Run all-reduces of float32 from 1 MiB up, doubling the size, and check every value of the results."""
    most = int(os.environ.get("TRAINWAY_PROBE_MAX_BYTES", 8 * 2**30))
    if device.type == "cuda":
        most = min(most, torch.cuda.get_device_properties(device).total_memory // 4)
    ranks, rank, size, wrong = dist.get_world_size(), dist.get_rank(), MIB, 0
    if rank == 0:
        print("#       size         count      type   redop    root     time   algbw   busbw #wrong", flush=True)
        print("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)", flush=True)
    while size <= most:
        repeats = max(3, min(20, 2**31 // size))
        tensor = torch.ones(size // 4, device=device)
        for _ in range(2):
            dist.all_reduce(tensor)
        settle(torch, dist, device)
        began = time.monotonic()
        for _ in range(repeats):
            dist.all_reduce(tensor)
        settle(torch, dist, device)
        seconds = (time.monotonic() - began) / repeats
        tensor.fill_(rank + 1)
        dist.all_reduce(tensor)
        bad = int((tensor != ranks * (ranks + 1) / 2).sum())
        wrong += bad
        algorithm = size / seconds / 1e9
        bus = algorithm * 2 * (ranks - 1) / ranks
        if rank == 0:
            row = f"{size:12d}  {size // 4:12d}     float     sum      -1"
            print(f"{row} {seconds * 1e6:8.1f} {algorithm:7.2f} {bus:7.2f} {bad:6d}", flush=True)
        size *= 2
    if rank == 0:
        print(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}", flush=True)


def settle(torch: Any, dist: Any, device: Any) -> None:
    """Wait until every rank has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    dist.barrier()


if __name__ == "__main__":
    main()
