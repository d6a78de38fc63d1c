"""A Lustre file system of yours that the platform uses."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error

# https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html (read 2026-11-25)
USABLE = ("AVAILABLE", "UPDATING")


@check("fsx:DescribeFileSystems")
def file_systems(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each adopted file system is available, in the adopted VPC, and has the mount name that the file says."""
    network = inquiry.platform.network.existing
    for name, lustre in inquiry.platform.storage.lustre_by_key.items():
        if lustre.existing is None or network is None:
            continue
        key = ("storage", name, "existing")
        identifier = lustre.existing.file_system_id
        answer = inquiry.aws.ask(
            "fsx", "describe_file_systems", FileSystemIds=[identifier], absent=["FileSystemNotFound"]
        )
        found = next(iter(answer["FileSystems"]), None) if answer else None
        if found is None:
            yield error(
                f"there is no file system {identifier}",
                why=f"FSx lists none with this ID for account {inquiry.aws.number} in {inquiry.aws.region}",
                fix="`aws fsx describe-file-systems` lists those that the account has",
                key=(*key, "file_system_id"),
            )
            continue
        if found["Lifecycle"] not in USABLE:
            yield error(
                f"{identifier} is {found['Lifecycle']}",
                why="nodes cannot mount it",
                fix="wait, or adopt another file system; the console of FSx shows what is wrong",
                key=(*key, "file_system_id"),
            )
        for what, said, real in (
            ("VPC", network.vpc_id, found.get("VpcId")),
            ("mount name", lustre.existing.mount_name, found.get("LustreConfiguration", {}).get("MountName")),
        ):
            if real is not None and said != real:
                yield error(
                    f"the {what} of {identifier} is {real}",
                    why=f"the file says {said}, and nodes mount it so",
                    fix=f"run `trainway adopt {identifier}` again",
                    key=(*key, "mount_name") if what == "mount name" else (*key, "file_system_id"),
                )
