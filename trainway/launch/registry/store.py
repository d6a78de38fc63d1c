"""The records of runs in a platform's bucket: one object each, without a server.

S3 answers a conditional write of two writers so that exactly one of them succeeds.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html (read 2026-11-24)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainway.launch.registry.record import RECORD, RunRecord, UnreadableRecord, key_of, parse, prefix_of
from trainway.launch.registry.state import RunState, parse_state, state_key_of
from trainway.launch.runs.names import is_run_name
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff

_ABSENT = {"NoSuchKey", "404"}
_DENIED = {"AccessDenied", "403"}


# A record has a job file and a lock of packages. A larger object is not a record, so it is not read.
_MOST_BYTES = 16 * 2**20


class NameTaken(Exception):
    """A run of the team has the name already."""


@dataclass(frozen=True)
class Registry:
    """The records of the runs of one platform."""

    platform: str
    region: str
    bucket: str
    teams: tuple[str, ...]
    hand_off: HandOff | None = field(default=None, compare=False, repr=False)
    """The hand-off of the platform, if it was read."""
    on_platform: dict[tuple[str, str | None], Handle] = field(default_factory=dict, compare=False, repr=False)
    """What the platform decides of handles, by target and team, if it was asked for."""

    def reserve(self, record: RunRecord) -> None:
        """Write the record of a new run.

        Raises NameTaken if its team has a run of the name, and UsageError if the bucket cannot be written.
        """
        self._put(record, IfNoneMatch="*")

    def write(self, record: RunRecord) -> None:
        """Write the record of a run that has one. Raises UsageError if the bucket cannot be written."""
        self._put(record)

    def state(self, team: str | None, run: str) -> RunState | None:
        """Return what a run wrote about itself, or None if it has written nothing that can be read."""
        try:
            return parse_state(self._text(state_key_of(team, run)))
        except (LookupError, PermissionError, ValueError, UsageError):
            return None

    def release(self, record: RunRecord) -> None:
        """Delete the record of a run that did not begin, so that its name is free."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            for key in (record.key, state_key_of(record.team, record.run)):
                self._client().delete_object(Bucket=self.bucket, Key=key)
        except (BotoCoreError, ClientError) as error:
            raise self._problem("deleted", record.key, "s3:DeleteObject", error) from None

    def read(self, run: str) -> RunRecord | None:
        """Return the record of a run of any team whose records this person may read, or None if there is none.

        Raises UsageError if the bucket cannot be asked, if the record cannot be read, and if two teams have a run of
        the name.
        """
        found = list[RunRecord]()
        if not is_run_name(run):
            return None
        for team in self._teams():
            # S3 forbids an object that does not exist to those who may list only some prefixes.
            with contextlib.suppress(LookupError, PermissionError):
                found.append(self._readable(key_of(team, run)))
        if len(found) > 1:
            teams = " and ".join(str(each.team) for each in found)
            why = f"the teams {teams} have a run of this name"
            fix = "go to the directory that it was launched from"
            raise usage_error(f"{run} is not the name of one run", why=why, fix=fix)
        return found[0] if found else None

    def take_over(self, record: RunRecord) -> bool:
        """Replace the record of a run that was reserved but never submitted. Return whether it was still in this state.

        Of several who do so at the same time, one gets True. Raises UsageError if the bucket cannot be written.
        """
        try:
            text, etag = self._text_and_etag(record.key)
            kept = parse(text, record.key)
        except (LookupError, ValueError):
            return False
        if kept.started == record.started or kept.launch is not None:
            return False
        try:
            self._put(record, IfMatch=etag)
        except NameTaken:
            return False
        return True

    def named(self, team: str | None, prefix: str) -> Iterator[RunRecord]:
        """Yield the records of a team's runs whose names begin with a prefix. Leave out unreadable records.

        Raises UsageError if the records cannot be listed, or may not be read.
        """
        found = self._listed(prefix_of(team), f"{prefix_of(team)}{prefix}", is_asked_for=True)
        yield from (each for each in found if isinstance(each, RunRecord))

    def records(self, teams: Sequence[str] = ()) -> Iterator[RunRecord]:
        """Yield the readable records that `records_and_others` yields."""
        yield from (each for each in self.records_and_others(teams) if isinstance(each, RunRecord))

    def records_and_others(self, teams: Sequence[str] = ()) -> Iterator[RunRecord | UnreadableRecord]:
        """Yield the records of some teams, or of all teams that this person may read, the newest of each team first.

        An unreadable record is one among the others: somebody who can write one must not hide them.
        Raises UsageError if the records cannot be listed, or may not be read.
        """
        for team in teams or self._teams():
            yield from self._listed(prefix_of(team), prefix_of(team), is_asked_for=bool(teams))

    def _listed(self, where: str, prefix: str, *, is_asked_for: bool) -> Iterator[RunRecord | UnreadableRecord]:
        """Yield the records of the keys with a prefix. Leave them out if they may not be listed."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
            listed = [each for page in pages for each in page.get("Contents", ())]
        except ClientError as error:
            if error.response["Error"]["Code"] in _DENIED and not is_asked_for:
                return
            raise self._problem("listed", where, "s3:ListBucket", error) from None
        except BotoCoreError as error:
            raise self._problem("listed", where, "s3:ListBucket", error) from None
        listed = [each for each in listed if each["Key"].endswith(RECORD)]
        for each in sorted(listed, key=lambda entry: entry["LastModified"], reverse=True):
            try:
                yield self._get(each["Key"])
            except LookupError:
                continue  # the record was deleted after it was listed
            except PermissionError as error:
                raise self._problem("read", each["Key"], "s3:GetObject", error) from None

    def _teams(self) -> tuple[str | None, ...]:
        return (*self.teams, None)

    def _put(self, record: RunRecord, **condition: Any) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client().put_object(
                Bucket=self.bucket,
                Key=record.key,
                Body=record.as_text().encode(),
                ContentType="application/json",
                **condition,
            )
        except ClientError as error:
            # 409: another writer of the same object was faster, and S3 has not finished with it.
            if condition and error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise NameTaken(record.run) from None
            raise self._problem("written", record.key, "s3:PutObject", error) from None
        except BotoCoreError as error:
            raise self._problem("written", record.key, "s3:PutObject", error) from None

    def _get(self, key: str) -> RunRecord | UnreadableRecord:
        """Return the record in an object. Raises LookupError for none, and PermissionError for a forbidden one."""
        try:
            return parse(self._text(key), key)
        except ValueError as error:
            return UnreadableRecord(key, str(error))

    def _readable(self, key: str) -> RunRecord:
        """Return the record in an object. Raises as `_get`, and UsageError for an object that is no record."""
        found = self._get(key)
        if isinstance(found, RunRecord):
            return found
        where = f"s3://{self.bucket}/{key}"
        fix = f"launch the run again under another name; `aws s3 rm {where}` deletes the record"
        raise usage_error(f"the record of the run {found.run} is unreadable", why=found.why, fix=fix)

    def _text(self, key: str) -> str:
        """Return the text of an object.

        Raises LookupError for none, PermissionError for a forbidden one, and ValueError for one that is no text.
        """
        return self._text_and_etag(key)[0]

    def _text_and_etag(self, key: str) -> tuple[str, str]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found = self._client().get_object(Bucket=self.bucket, Key=key)
            if found["ContentLength"] > _MOST_BYTES:
                raise ValueError(f"it has {found['ContentLength']:,} bytes")
            return found["Body"].read().decode("utf-8"), str(found["ETag"])
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _ABSENT:
                raise LookupError(key) from None
            if code in _DENIED:
                raise PermissionError(error.response["Error"]["Message"]) from None
            raise self._problem("read", key, "s3:GetObject", error) from None
        except BotoCoreError as error:
            raise self._problem("read", key, "s3:GetObject", error) from None

    def _client(self) -> Any:
        import boto3

        return boto3.client("s3", region_name=self.region)

    def _problem(self, verb: str, key: str, action: str, error: Exception) -> UsageError:
        where = f"s3://{self.bucket}/{key}"
        what = f"the record of runs {where} cannot be {verb}"
        return usage_error(what, why=str(error), fix=f"you need {action} on it, and credentials of the platform")
