"""Writers and readers of torch.distributed.checkpoint, for a file system and for S3."""

import io
import json
import os
from typing import IO, Any, cast

import torch
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import ReadItem, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from training.checkpoint.checksum import Checksum
from training.checkpoint.failures import causes_of
from training.checkpoint.metadata_file import SealingFileSystem, load_metadata
from training.hosts import location_files


def writer(destination: str) -> FileSystemWriter:
    """Return the writer of one checkpoint, with checksums."""
    # The state is already in host memory. Copying ahead would initialize a GPU, in a thread even the wrong one.
    options: dict[str, Any] = {"_extensions": [Checksum()], "per_thread_copy_ahead": 0}
    if not location_files.is_s3(destination):
        return _Writer(destination, **options)
    from s3torchconnector.dcp import S3StorageWriter as ConnectorWriter
    from s3torchconnector.dcp.s3_prefix_strategy import RoundRobinPrefixStrategy

    # The prefixes are below the checkpoint, so that on a file system it is one directory.
    prefixes = [f"p{number:03d}" for number in range(_layout().get("prefixes", 1))]
    strategy = RoundRobinPrefixStrategy(prefixes) if len(prefixes) > 1 else None

    class S3Writer(_Writer, ConnectorWriter):
        pass

    return S3Writer(**_s3_options(destination), prefix_strategy=strategy, **options)


def reader(source: str) -> FileSystemReader:
    """Return the reader of one checkpoint. It verifies checksums if the checkpoint has any, and executes nothing."""
    if location_files.is_s3(source):
        from s3torchconnector.dcp import S3StorageReader as ConnectorReader

        class S3Reader(_Reader, ConnectorReader):
            pass

        reader: FileSystemReader = S3Reader(**_s3_options(source))
    else:
        reader = _Reader(source)
    reader.transforms.extension_registry.register(Checksum)
    return reader


class LoadPlanner(DefaultLoadPlanner):
    """PyTorch's planner, which reads values that are no tensors as plain data.

    PyTorch's own unpickles them with every class that they name.
    """

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Set one value, such as a learning rate.

        Raises:
            pickle.UnpicklingError: the value is not of plain types.
        """
        path = self.mappings[read_item.dest_index.fqn]
        set_element(self.original_state_dict, path, torch.load(value, weights_only=True))


class _Writer(FileSystemWriter):
    """Writes `.metadata` with a checksum, and raises the error of the operating system if there is one."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        try:
            return super().write_data(plan, planner)
        except Exception as error:
            # An error of PyTorch's zip writer hides it, and the way to the other ranks would cut off its causes.
            causes = [cause for cause in causes_of(error) if isinstance(cause, OSError)]
            raise (causes[-1] if causes else error) from error

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        files, sync = self.fs, self.sync_files
        # PyTorch would synchronize before the checksum is there.
        self.fs, self.sync_files = SealingFileSystem(files, sync), False  # type: ignore[assignment]
        try:
            super().finish(metadata, results)
        finally:
            self.fs, self.sync_files = files, sync


class _Reader(FileSystemReader):
    """Reads `.metadata` without executing anything."""

    def read_metadata(self, *_: Any, **named: Any) -> Metadata:
        with self.fs.create_stream(self._get_metadata_path(named.get("rank")), "rb") as file:
            metadata = load_metadata(cast(IO[bytes], file))
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _s3_options(location: str) -> dict[str, Any]:
    """Return the arguments of the S3 connector, which finds credentials as boto3 does, but not region and endpoint."""
    from s3torchconnector import S3ClientConfig

    client = location_files.s3_client()
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    if endpoint:
        # The connector reads only the general variable. This process uses no other service.
        os.environ["AWS_ENDPOINT_URL"] = endpoint
    layout, usual = _layout(), S3ClientConfig()
    settings = S3ClientConfig(
        # Buckets of an emulated S3 are a path of its endpoint, not a host name.
        force_path_style="AWS_ENDPOINT_URL" in os.environ,
        max_attempts=location_files.ATTEMPTS,
        part_size=layout.get("part_bytes", usual.part_size),
        throughput_target_gbps=layout.get("gbps_each", usual.throughput_target_gbps),
    )
    return {"region": client.meta.region_name, "path": location, "s3client_config": settings}


def _layout() -> dict[str, int]:
    """Return how the platform wants checkpoints written to S3: prefixes, part_bytes, and gbps_each.

    The launcher passes these values as a JSON object in the environment variable TRAINWAY_CHECKPOINTS. With several
    prefixes, S3 can serve all ranks at the same time:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html (read 2026-11-21)
    """
    layout: dict[str, int] = json.loads(os.environ.get("TRAINWAY_CHECKPOINTS", "{}"))
    return layout
