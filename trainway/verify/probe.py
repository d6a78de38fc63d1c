"""Run by every process of a job on the nodes that are to be proved; prints what it finds, and judges nothing.

It is sent as text and run by the image's own Python, so it imports nothing of this project, and PyTorch by its name.
One process a node looks at the node and prints a line of JSON; then all of them do all-reduces of growing size, and
rank 0 prints the table of NCCL's own tests. Those are MPI programs, and no target has to have MPI to start a training
job: what is proved here is the very path that a job takes, torchrun, PyTorch and its NCCL.
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
    """What the environment asks for; without a launcher around it, only the node is looked at."""
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
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    try:
        # All leave the barrier at one moment, nearly: what their clocks say then differs by their skew.
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
    """One line, so that it can be found between those of others."""
    if facts is not None:
        print(MARK + json.dumps(facts), flush=True)


def node_facts(directory: Path) -> dict[str, Any]:
    """What can be seen of the node from here, without PyTorch."""
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
        # -1 stands for no limit.
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
    """The first group of the first match, or None."""
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else None


def plugin_version() -> Any:
    """The version of the package with NCCL's plugin for EFA."""
    packages = run("dpkg-query", "--show", "--showformat=${Package} ${Version}\n", "libnccl-ofi*")
    packages += run("rpm", "--query", "--all", "--queryformat=%{NAME} %{VERSION}\n", "libnccl-ofi*")
    return first(r"^libnccl-ofi\S* (\d[\d.]*)", packages)


def file_system(directory: Path) -> dict[str, Any]:
    """Writes a file of this node's own, reads it back, and removes it; bandwidths in MB/s (10^6)."""
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
            # Out of this node's memory, so that it is read from where it was written to.
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
    """The answer of dcgmi's diagnostic at the level that is asked for; None where there is none."""
    level = os.environ.get("TRAINWAY_PROBE_DCGM_LEVEL", "1")
    try:
        return json.loads(run("dcgmi", "diag", "--run", level, "--json", seconds=3600))
    except ValueError:
        return None


def sweep(torch: Any, dist: Any, device: Any) -> None:
    """All-reduces of float32 from 1 MiB up, twice as large each time; every value of the result is looked at."""
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
    """Waits until every rank has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    dist.barrier()


if __name__ == "__main__":
    main()
