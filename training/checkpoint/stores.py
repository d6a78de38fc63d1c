"""Writers and readers of torch.distributed.checkpoint, for a file system and for S3."""

import json
import os
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

from training.checkpoint.checksum import Checksum
from training.hosts import location_files


def writer(destination: str) -> FileSystemWriter:
    """The writer of one checkpoint, with checksums."""
    # What is written is in the host's memory; copying ahead would begin to use a GPU, and in a thread the wrong one.
    options: dict[str, Any] = {"_extensions": [Checksum()], "per_thread_copy_ahead": 0}
    if not location_files.is_s3(destination):
        return FileSystemWriter(destination, **options)
    from s3torchconnector.dcp import S3StorageWriter
    from s3torchconnector.dcp.s3_prefix_strategy import RoundRobinPrefixStrategy

    # Below the checkpoint, so that on a file system it is one directory, whoever wrote it.
    prefixes = [f"p{number:03d}" for number in range(_layout().get("prefixes", 1))]
    strategy = RoundRobinPrefixStrategy(prefixes) if len(prefixes) > 1 else None
    return S3StorageWriter(**_s3_options(destination), prefix_strategy=strategy, **options)


def reader(source: str) -> FileSystemReader:
    """The reader of one checkpoint, which compares its checksums, if it has any."""
    if location_files.is_s3(source):
        from s3torchconnector.dcp import S3StorageReader

        reader: FileSystemReader = S3StorageReader(**_s3_options(source))
    else:
        reader = FileSystemReader(source)
    reader.transforms.extension_registry.register(Checksum)
    return reader


def _s3_options(location: str) -> dict[str, Any]:
    """Arguments of the S3 connector. It takes credentials from where boto3 does, but not the region and endpoint."""
    from s3torchconnector import S3ClientConfig

    client = location_files.s3_client()
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    if endpoint:
        # The connector reads only the general variable; this process talks to no other service.
        os.environ["AWS_ENDPOINT_URL"] = endpoint
    layout, usual = _layout(), S3ClientConfig()
    settings = S3ClientConfig(
        # Buckets of an emulated S3 are a path of its endpoint and not names in a domain.
        force_path_style="AWS_ENDPOINT_URL" in os.environ,
        part_size=layout.get("part_bytes", usual.part_size),
        throughput_target_gbps=layout.get("gbps_each", usual.throughput_target_gbps),
    )
    return {"region": client.meta.region_name, "path": location, "s3client_config": settings}


def _layout() -> dict[str, int]:
    """How the platform wants checkpoints written to S3, which the launcher knows: prefixes, part_bytes, gbps_each.

    It puts that in the environment variable TRAINWAY_CHECKPOINTS, as a JSON object. With so many prefixes S3 answers
    all ranks at once: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
    (read 2026-11-21)
    """
    layout: dict[str, int] = json.loads(os.environ.get("TRAINWAY_CHECKPOINTS", "{}"))
    return layout
