"""`storage`: where data and checkpoints live."""

from __future__ import annotations

from pydantic import Field

from trainway.spec.fields import LustreThroughput, S3Uri, Section

# Where every node and every pod finds the file system.
MOUNT_PATH = "/fsx"


class Lustre(Section):
    """The FSx for Lustre file system that every node mounts at /fsx."""

    capacity_tib: float = Field(1.2, gt=0, description="Storage in TiB, in the steps that FSx sells.")
    throughput_mbps_per_tib: LustreThroughput = Field(
        250, description="MB/s that each TiB of storage gives; a wrong value is told the ones that exist."
    )
    efa: bool = Field(False, description="EFA and GPUDirect Storage between nodes and file system.")
    import_from: tuple[S3Uri, ...] = Field(
        (),
        max_length=6,
        description="Existing S3 prefixes of yours, shown below /fsx/import/<bucket> and never written to.",
    )

    @property
    def capacity_gib(self) -> int:
        """Storage in the API's unit: what AWS sells as 1.2 TiB is 1,200 GiB there."""
        return round(self.capacity_tib * 1000)


class Storage(Section):
    """Where data and checkpoints live."""

    lustre: Lustre = Field(default_factory=Lustre, description="The file system beside the nodes.")
