"""Edits of the storage of a deployed platform."""

from __future__ import annotations

from typing import Any

from tests.changes.edit import HYPERPOD, KEY, KEY_2, KUBERNETES, Edit, both, with_groups, with_keys
from tests.changes.edits.shared import AA, BB, CC, DD, LINKS

THROUGHPUT: dict[str, Any] = {
    "says": (
        "  replaced          file system storage.lustre",
        "                    LustreConfiguration.PerUnitStorageThroughput: 1000 → 500, which may replace it",
        "                    cost: it is kept, outside of the stack, and jobs get a new one, which is empty",
        "  replaced          link to S3 LustreRunsRepository",
        "                    FileSystemId follows LustreFileSystem",
    ),
    "loses": {"storage.lustre": "storage.lustre.throughput_mbps_per_tib"},
    "gone": ("storage.lustre", *LINKS),
    "refused": "storage.lustre would be replaced",
}

OF_STORAGE: dict[str, Edit] = {
    "a link": Edit(
        (
            with_keys("storage", "lustre", import_from=["s3://corpus/web/"]),
            with_keys("storage", "lustre", import_from=["s3://mine/b/"]),
        ),
        "file-system/LustreImport.*",
        says=("  created           link to S3 LustreImportCorpusWebRepository",),
    ),
    "no mirror": Edit(
        (with_keys("storage", "lustre", mirror=False),),
        "file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
        gone=LINKS,
    ),
    "other throughput": Edit((with_keys("storage", "lustre", throughput_mbps_per_tib=500),), **THROUGHPUT),
    "two edits, one refused": Edit(
        (
            both(
                with_groups(AA | {"count": 3}, BB, CC, DD),
                with_keys("storage", "lustre", throughput_mbps_per_tib=500),
            ),
        ),
        **THROUGHPUT,
        on=("eks",),
    ),
    "more capacity": Edit(
        (with_keys("storage", "lustre", capacity_tib=9.6),),
        says=("  changed in place  file system storage.lustre", "                    StorageCapacity: 4800 → 9600"),
        told_only=True,
        on=("eks",),
    ),
    "another compression": Edit(
        (with_keys("storage", "lustre", compression=False),),
        says=('                    LustreConfiguration.DataCompressionType: "LZ4" → "NONE"',),
        told_only=True,
        on=("eks",),
    ),
    "efa of the file system": Edit((with_keys("storage", "lustre", efa=True),), refused="storage.lustre.efa"),
    "a key of the bucket": Edit((with_keys("storage", "bucket", key=KEY), with_keys("storage", "bucket", key=KEY_2))),
    "fewer days for old versions": Edit(
        (with_keys("storage", "bucket", old_versions_days=5),),
        says=(
            "note: S3 deletes objects in DataBucket that were deleted or overwritten more than 5 days ago. Until now "
            "they can be restored for 30 days: restore first what you need.",
            "note: S3 deletes objects below checkpoints/ in DataBucket that were deleted or overwritten more than 5 "
            "days ago. Until now they can be restored for 7 days: restore first what you need.",
        ),
        on=("eks",),
    ),
    "a key of the file system": Edit(
        (with_keys("storage", "lustre", key=KEY), with_keys("storage", "lustre", key=KEY_2)),
        refused="storage.lustre.key",
    ),
    "a file system in the place of the one in use": Edit(
        (with_keys("storage", "lustre", generation=2),), refused="storage.former_lustre"
    ),
    "a former file system that never was": Edit(
        (with_keys("storage", former_lustre={"generation": 2, "capacity_tib": 4.8}),),
        refused="no file system of generation 2",
    ),
    "no file system at once": Edit(
        (with_keys("storage", lustre=None),), refused="write its section as `storage.former_lustre`", on=("eks",)
    ),
    "no file system on HyperPod": Edit(
        (with_keys("storage", lustre=None),), refused="requires a file system", on=HYPERPOD
    ),
    "dynamic volumes": Edit((with_keys("storage", "lustre", dynamic_volumes=True),), "cluster/.*", on=KUBERNETES),
    "root squash": Edit(
        (with_keys("storage", "lustre", root_squash={}),),
        "file-system/.*",
        says=("  pipeline          sets root squash of the file system",),
    ),
    "home directories": Edit(
        (with_keys("storage", home={}),),
        "file-system/Home.*",
        back_loses=("storage.home",),
        says=("  created           file system storage.home",),
        on=("hyperpod-slurm",),
    ),
    "a key of the volumes": Edit(
        (with_keys("hyperpod", volume_key=KEY), with_keys("hyperpod", volume_key=KEY_2)), on=HYPERPOD
    ),
}
