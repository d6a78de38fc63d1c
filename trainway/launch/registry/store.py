"""The records of runs in a platform's bucket: one object each, without a server.

S3 answers a conditional write of two writers so that exactly one of them succeeds.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html (read 2026-11-24)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby, islice
from typing import Any

from trainway.launch.registry.record import RECORD, RunRecord, UnreadableRecord, key_of, parse, prefix_of
from trainway.launch.registry.state import STATE, RunState, parse_state, state_key_of
from trainway.launch.runs.names import is_run_name
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff

_ABSENT = {"NoSuchKey", "404"}
_DENIED = {"AccessDenied", "403"}


# A record has a job file and a lock of packages. A larger object is not a record, so it is not read.
_MOST_BYTES = 16 * 2**20


# Each record is a request, and takes about as long as S3 takes to answer. A part of them is in memory at a time.
_RECORDS_AT_A_TIME, _REQUESTS_AT_A_TIME = 32, 8


class NameTaken(Exception):
    """A run of the team has the name already."""


@dataclass(frozen=True)
class RecordedRun:
    """The record of a run, and what the run wrote about itself, or None if it has written nothing.

    `changed` is the time of the last write of the state, or of a record without a state, by the clock of S3.
    """

    record: RunRecord
    state: RunState | None
    changed: datetime


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
                self._client.delete_object(Bucket=self.bucket, Key=key)
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

    def runs_of_teams(
        self, *, since: datetime | None = None, wanted: Callable[[RunRecord], bool] = lambda _: True
    ) -> Iterator[RecordedRun | UnreadableRecord]:
        """Yield the runs of all teams whose records this person may list. The arguments are those of `runs`."""
        for team in self._teams():
            with contextlib.suppress(PermissionError):
                yield from self.runs(team, since=since, wanted=wanted)

    def runs(
        self,
        team: str | None,
        *,
        since: datetime | None = None,
        wanted: Callable[[RunRecord], bool] = lambda _: True,
    ) -> Iterator[RecordedRun | UnreadableRecord]:
        """Yield the runs of a team that were launched or have written their state since a time, by their names.

        The state of a run whose record is not `wanted` is not read, and the run is left out. A run of which either
        cannot be read is an UnreadableRecord. A list of any length takes little memory: its pages are read one by one.
        Raises UsageError if the records cannot be listed, or may not be read, and PermissionError if S3 forbids to
        list them.
        """
        # The state of a run is listed beside its record, because no name has a dot.
        entries = (each for each in self._entries(prefix_of(team)) if each["Key"].endswith((RECORD, STATE)))
        listed = groupby(entries, key=lambda each: str(each["Key"]).rpartition(".")[0])
        found = ({each["Key"]: each["LastModified"] for each in objects} for _, objects in listed)
        recent = (times for times in found if since is None or max(times.values()) >= since)
        with ThreadPoolExecutor(_REQUESTS_AT_A_TIME) as pool:
            while some := list(islice(recent, _RECORDS_AT_A_TIME)):
                yield from filter(None, pool.map(lambda times: self._run_of(times, wanted), some))

    def _run_of(
        self, times: Mapping[str, datetime], wanted: Callable[[RunRecord], bool]
    ) -> RecordedRun | UnreadableRecord | None:
        """Return a run by the keys of its objects and the times of their last writes.

        None stands for a run that is not wanted, or that was deleted after it was listed.
        """
        key = min(times).removesuffix(STATE).removesuffix(RECORD) + RECORD
        has_state = any(each.endswith(STATE) for each in times)
        if key not in times:
            return UnreadableRecord(key, "the run has a state and no record")
        try:
            record = self._get(key)
            if isinstance(record, UnreadableRecord) or not wanted(record):
                return record if isinstance(record, UnreadableRecord) else None
            state = parse_state(self._text(state_key_of(record.team, record.run))) if has_state else None
            return RecordedRun(record, state, times[max(times)])
        except LookupError:
            return None
        except PermissionError as error:
            raise self._problem("read", key, "s3:GetObject", error) from None
        except ValueError as error:
            return UnreadableRecord(key, f"its state: {error}")

    def _listed(self, where: str, prefix: str, *, is_asked_for: bool) -> Iterator[RunRecord | UnreadableRecord]:
        """Yield the records of the keys with a prefix. Leave them out if they may not be listed."""
        try:
            listed = [each for each in self._entries(prefix, where) if each["Key"].endswith(RECORD)]
        except PermissionError as error:
            if not is_asked_for:
                return
            raise self._problem("listed", where, "s3:ListBucket", error) from None
        for each in sorted(listed, key=lambda entry: entry["LastModified"], reverse=True):
            try:
                yield self._get(each["Key"])
            except LookupError:
                continue  # the record was deleted after it was listed
            except PermissionError as error:
                raise self._problem("read", each["Key"], "s3:GetObject", error) from None

    def _entries(self, prefix: str, where: str = "") -> Iterator[dict[str, Any]]:
        """Yield the objects of the keys with a prefix, in the order of the keys, as S3 lists them.

        Raises PermissionError if S3 forbids it, and UsageError, about the records at `where`, if S3 does not answer.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                yield from page.get("Contents", ())
        except ClientError as error:
            if error.response["Error"]["Code"] in _DENIED:
                raise PermissionError(error.response["Error"]["Message"]) from None
            raise self._problem("listed", where or prefix, "s3:ListBucket", error) from None
        except BotoCoreError as error:
            raise self._problem("listed", where or prefix, "s3:ListBucket", error) from None

    def _teams(self) -> tuple[str | None, ...]:
        return (*self.teams, None)

    def _put(self, record: RunRecord, **condition: Any) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client.put_object(
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
            found = self._client.get_object(Bucket=self.bucket, Key=key)
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

    @cached_property
    def _client(self) -> Any:
        import boto3

        return boto3.client("s3", region_name=self.region)

    def _problem(self, verb: str, key: str, action: str, error: Exception) -> UsageError:
        where = f"s3://{self.bucket}/{key}"
        what = f"the record of runs {where} cannot be {verb}"
        return usage_error(what, why=str(error), fix=f"you need {action} on it, and credentials of the platform")
