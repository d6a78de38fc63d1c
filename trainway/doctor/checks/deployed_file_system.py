"""The Lustre file system that jobs use, and its links to the bucket."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.doctor.inquiry import hand_off_of
from trainway.preflight.check import Inquiry
from trainway.preflight.checks.file_systems import USABLE
from trainway.preflight.finding import AccountFinding, error, warning

# https://docs.aws.amazon.com/fsx/latest/APIReference/API_DataRepositoryAssociation.html (read 2026-11-25)
LINKED = ("AVAILABLE", "CREATING", "UPDATING")


@check("ssm:GetParameter", "fsx:DescribeFileSystems", "fsx:DescribeDataRepositoryAssociations")
def deployed_file_system(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The file system that jobs mount is available, and so is each of its links to the bucket."""
    file_system = hand_off_of(inquiry).file_system
    if file_system is None:
        return
    identifier = file_system.file_system_id
    answer = inquiry.aws.ask("fsx", "describe_file_systems", FileSystemIds=[identifier], absent=["FileSystemNotFound"])
    found = next(iter(answer["FileSystems"]), None) if answer else None
    if found is None:
        why = "jobs mount it by the id that the last deploy wrote"
        yield error(f"the file system {identifier} is gone", why=why, fix="make deploy")
        return
    if found["Lifecycle"] not in USABLE:
        why = found.get("FailureDetails", {}).get("Message") or "nodes cannot mount it"
        fix = f"aws fsx describe-file-systems --file-system-ids {identifier} --region {inquiry.aws.region}"
        yield error(f"the file system {identifier} is {found['Lifecycle']}", why=why, fix=fix)
    here = [{"Name": "file-system-id", "Values": [identifier]}]
    # A file system has fewer links than a page of the answer.
    listed = inquiry.aws.ask("fsx", "describe_data_repository_associations", Filters=here) or {}
    for link in listed["Associations"]:
        if link["Lifecycle"] not in LINKED:
            yield warning(
                f"the link of {link.get('FileSystemPath')} to {link.get('DataRepositoryPath')} is {link['Lifecycle']}",
                why=link.get("FailureDetails", {}).get("Message") or "new files of one do not appear in the other",
                fix="mend what FSx names: the bucket, its policy, or its key",
            )
