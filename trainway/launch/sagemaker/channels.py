"""Input channels: the job file, and the data in the way that the launch asks for.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainway.launch.platform.locations import relative_to_platform
from trainway.launch.program.environment import cluster_roots
from trainway.launch.program.locations import local_roots
from trainway.launch.program.program import HOST_FILES
from trainway.launch.program.request import OnNodes, Request
from trainway.launch.sagemaker.container import CHANNELS, JOB
from trainway.launch.sagemaker.options import SageMakerOptions, cannot

JOB_FILE = CHANNELS / JOB / "job.yaml"
_FILE_SYSTEM = "fsx"
# The channels of a job, and that of the job file is one.
_MOST_CHANNELS = 20


@dataclass(frozen=True)
class Inputs:
    """`configuration` is the request's InputDataConfig; `roots` what the schemes of locations mean in the container.

    `channels` has the channels that hold one location of the job file, by the location.
    """

    configuration: list[dict[str, Any]]
    roots: Mapping[str, str]
    channels: Mapping[str, str]


def inputs(request: Request, on_nodes: OnNodes, options: SageMakerOptions) -> Inputs:
    """Return the channels of a job. With data from S3, raises UsageError for a location outside of the bucket."""
    job = _from_s3(JOB, files_location(on_nodes), "File")
    if options.data == "fsx":
        roots = cluster_roots(request.hand_off) | {"fsx": str(CHANNELS / _FILE_SYSTEM)}
        return Inputs([job, _file_system(request, on_nodes)], roots, {})
    roots = local_roots(request.program, request.hand_off, "a training job without --data fsx")
    if options.data == "s3":
        return Inputs([job], roots, {})
    mode = {"file": "File", "fast-file": "FastFile"}[options.data]
    # What an s3://bucket/prefix says in full is fetched by the job itself.
    locations = [each.rstrip("/") for each in relative_to_platform(request.program.inputs)]
    if len(locations) >= _MOST_CHANNELS:
        why = f"it reads {len(locations)} locations, and a training job has {_MOST_CHANNELS} channels with its own"
        raise cannot(request, why, "read them from s3, or blend fewer")
    channels = {location: f"data-{number}" for number, location in enumerate(locations)}
    data = [
        # The slash, because a prefix may not be the beginning of a folder's name.
        _from_s3(channel, f"{roots[location.partition(':')[0]]}/{location.partition(':')[2].strip('/')}/", mode)
        for location, channel in channels.items()
    ]
    return Inputs([job, *data], roots, channels)


def files_location(on_nodes: OnNodes) -> str:
    """Return the prefix in the bucket of the files that every host gets."""
    return f"{on_nodes.location}/{JOB}/"


def on_hosts(request: Request) -> OnNodes:
    """Return what the hosts get that have the files of the program in the channel of the job file."""
    return request.on_nodes(CHANNELS / JOB)


def host_files(on_nodes: OnNodes) -> dict[str, str]:
    """Return the text of each file that every host gets, by its name: those of the program, and what starts it."""
    return {**on_nodes.files, **{file.name: file.read_text(encoding="utf-8") for file in HOST_FILES}}


def _from_s3(channel: str, location: str, mode: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": location, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": channel, "InputMode": mode, "DataSource": {"S3DataSource": source}}


def _file_system(request: Request, on_nodes: OnNodes) -> dict[str, Any]:
    """Return the file system, or the directory of the job's team. With Lustre, the path begins with the mount name.

    https://github.com/aws/sagemaker-python-sdk/pull/4257 (read 2026-11-21)
    """
    file_system = request.hand_off.mounted
    directory = on_nodes.paths.directory
    source = {
        "FileSystemType": "FSxLustre",
        "FileSystemId": file_system.file_system_id,
        "FileSystemAccessMode": "rw",
        "DirectoryPath": f"/{file_system.mount_name}{f'/{directory}' if directory else ''}",
    }
    return {"ChannelName": _FILE_SYSTEM, "InputMode": "File", "DataSource": {"FileSystemDataSource": source}}
