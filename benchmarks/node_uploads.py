"""Measure what one process that uploads the parts of all ranks of a node would save, against a process for each rank.

    python -m benchmarks.node_uploads

Eight ranks of a node each write 64 MiB to an emulated S3 with the connector that the training job uses, in parts of
8 MiB. They do so as eight processes, as one process with a thread for each object, and as one process that writes one
object after the other. The one process has the target throughput of all eight. The ways take turns (see turns.py). The
figures are the requests, and the most at the same time, that the server counts, and the processor seconds for 1 GiB,
the memory, and the threads of the writers. The emulated S3 closes each connection after its request.

One process gets the parts of the other ranks through /dev/shm. The processor time of this copy is a part of its figure.
"""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns

RANKS, MIB_EACH, PART_MIB, GBPS_EACH = 8, 64, 8, 10
ROUNDS = 5
GIB = RANKS * MIB_EACH / 1024
REGION, BUCKET = "us-west-2", "data"
ACCOUNT = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_EC2_METADATA_DISABLED": "true"}
# Each process of a way, as its first object, its number of objects, its target in Gbps, and whether it has threads.
WAYS = {
    "a process for each rank": [(rank, 1, GBPS_EACH, True) for rank in range(RANKS)],
    "one process, all at once": [(0, RANKS, RANKS * GBPS_EACH, True)],
    "one process, one by one": [(0, RANKS, RANKS * GBPS_EACH, False)],
}
Figures = dict[str, float]


def main() -> None:
    """Measure all ways, or be one of their processes."""
    if sys.argv[1:2] == ["--write"]:
        write(json.loads(sys.argv[2]))
        return
    chosen = arguments("node_uploads", __doc__).parse_args()
    os.environ.update(ACCOUNT)
    counted = Counted()
    endpoint, stop = serve(counted)
    turns = take_turns(
        {name: partial(upload, endpoint, processes, counted) for name, processes in WAYS.items()}, ROUNDS
    )
    stop()
    figures: dict[str, Any] = {
        name: {key: Spread.of([turn[key] for turn in of_way]).document() for key in of_way[0]}
        for name, of_way in turns.items()
    }
    seconds = {name: [turn["processor_seconds_of_gib"] for turn in of_way] for name, of_way in turns.items()}
    each, *others = seconds.values()
    for name, other in zip(list(seconds)[1:], others, strict=True):
        figures[f"processor time of a process for each rank over {name}"] = ratios(each, other).document()
    record(figures, ["s3torchconnector", "moto"], chosen.out)


class Counted:
    """The requests of a server, and the most that were under way at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.requests = self.now = self.most = 0

    def add(self, change: int) -> None:
        """Take the begin (1) or the end (-1) of a request."""
        with self._lock:
            self.requests += change > 0
            self.now += change
            self.most = max(self.most, self.now)


def serve(counted: Counted) -> tuple[str, Callable[[], None]]:
    """Start an emulated S3 with a bucket. Return its endpoint, and the function that ends it."""
    import boto3
    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    answer = WSGIRequestHandler.run_wsgi

    def count(handler: WSGIRequestHandler) -> None:
        counted.add(1)
        try:
            answer(handler)
        finally:
            counted.add(-1)

    WSGIRequestHandler.run_wsgi = count  # type: ignore[assignment,method-assign]
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client: Any = boto3.client("s3", endpoint_url=endpoint, region_name=REGION)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return endpoint, server.stop


def upload(endpoint: str, processes: list[tuple[int, int, int, bool]], counted: Counted) -> Figures:
    """Let processes write their objects at the same time, once all have imported the connector."""
    command = [sys.executable, "-m", "benchmarks.node_uploads", "--write"]
    started = [
        subprocess.Popen(
            [*command, json.dumps([endpoint, *each])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for each in processes
    ]
    for process in started:
        assert process.stdout and process.stdout.readline() == "ready\n"
    counted.reset()
    for process in started:
        assert process.stdin
        process.stdin.write("begin\n")
        process.stdin.flush()
    said: list[Figures] = [json.loads(process.communicate()[0]) for process in started]
    copy = copy_seconds() * (RANKS - 1) / RANKS if len(said) == 1 else 0.0
    return {
        "requests": counted.requests,
        "most_requests_at_once": counted.most,
        "processor_seconds_of_gib": sum(each["processor_seconds"] for each in said) / GIB + copy,
        "copy_processor_seconds_of_gib": copy,
        "memory_mib": sum(each["memory_mib"] for each in said),
        "threads": sum(each["threads"] for each in said),
    }


def write(what: tuple[str, int, int, int, bool]) -> None:
    """Write objects when a line arrives on standard input, and print what that cost."""
    from s3torchconnector import S3ClientConfig
    from s3torchconnector._s3client import S3Client

    endpoint, first, count, gbps, has_threads = what
    os.environ["AWS_ENDPOINT_URL"] = endpoint
    content = os.urandom(2**20)
    print("ready", flush=True)
    sys.stdin.readline()
    seconds, memory = processor_seconds(), peak_memory_mib()
    part_bytes = PART_MIB * 2**20
    config = S3ClientConfig(force_path_style=True, part_size=part_bytes, throughput_target_gbps=gbps)
    client = S3Client(REGION, s3client_config=config)

    def put(number: int) -> None:
        with client.put_object(BUCKET, f"step/__{number}_0.distcp") as object_writer:
            for _ in range(MIB_EACH):
                object_writer.write(content)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(first, first + count)]
    for thread in threads:
        thread.start()
        if not has_threads:
            thread.join()
    for thread in threads:
        thread.join()
    cost = {
        "processor_seconds": processor_seconds() - seconds,
        "memory_mib": peak_memory_mib() - memory,
        # The connector's own threads live on.
        "threads": len(list(Path("/proc/self/task").iterdir())),
    }
    print(json.dumps(cost), flush=True)


def processor_seconds() -> float:
    """Return the processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_memory_mib() -> float:
    """Return the most memory that this process has had."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(peak) / 1024


def copy_seconds() -> float:
    """Return the processor seconds of 1 GiB that goes to another process through shared memory."""
    content, path = os.urandom(2**20), Path(f"/dev/shm/trainway-copy-{os.getpid()}")
    begin = processor_seconds()
    try:
        with path.open("wb") as file:
            for _ in range(256):
                file.write(content)
        with path.open("rb") as file:
            while file.read(2**20):
                pass
    finally:
        path.unlink()
    return (processor_seconds() - begin) * 4


if __name__ == "__main__":
    main()
