"""The record of a run in the bucket of its platform.

Every member of the run's team can write the record, and so can a job of the team. `parse` is the only function that
reads a record. It refuses every value that a launch does not write.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from trainway.launch.platform.locations import scheme_of
from trainway.launch.runs.names import is_run_name
from trainway.launch.target.known import handle_problem
from trainway.spec.shown import shown
from trainway.spec.teams.team_data import RECORDS

SCHEMA_VERSION = 1
RECORD = ".json"
"""How the key of a record ends. The state of the run is beside it."""


@dataclass(frozen=True)
class RunRecord:
    """A run: who launched what, and how it is found again.

    `launch` is the content of the launch.json that the run has on the machine it was launched from, or None until the
    target has taken the run. `files` has the text of the job file and of the files beside it, by name.
    """

    run: str
    team: str | None
    owner: str
    started: str
    """The time of the first launch, in UTC, as ISO 8601."""
    files: dict[str, str]
    launch: dict[str, Any] | None = None
    attempts: int = 1
    """How often the run was launched: once, and once for each `trainway resume`."""

    @property
    def key(self) -> str:
        """The key of the record in the bucket."""
        return key_of(self.team, self.run)

    def taken(self, launch: dict[str, Any]) -> RunRecord:
        """Return the record of the run after its target has taken it."""
        return replace(self, launch=launch)

    def as_text(self) -> str:
        """Return the record as JSON."""
        return json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n"


def prefix_of(team: str | None) -> str:
    """Return the prefix of the keys of a team's records, or of the records of runs without a team."""
    return f"runs/{team}/{RECORDS}/" if team else f"runs/{RECORDS}/"


def key_of(team: str | None, run: str) -> str:
    """Return the key of a run's record in the bucket."""
    return f"{prefix_of(team)}{run}{RECORD}"


@dataclass(frozen=True)
class UnreadableRecord:
    """An object at the key of a record that cannot be read as a record, and the reason."""

    key: str
    why: str

    @property
    def run(self) -> str:
        """The name of the run in the key, with U+FFFD for each character that a terminal does not show."""
        return shown(self.key.rpartition("/")[2].removesuffix(RECORD))


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that a terminal does not show")
    return text


def _moment(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("it is no time") from None
    if found.tzinfo is None:
        raise ValueError("it is a time without its distance from UTC")
    try:
        found.astimezone(UTC)
    except OverflowError:
        # For example 0001-01-01T00:00:00+23:59.
        raise ValueError("it is no time that UTC has") from None
    return text


def _utf_8(text: str) -> str:
    """Refuse half of a surrogate pair, which JSON can write as `\\ud800`, and which no file can contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has characters that UTF-8 cannot encode") from None
    return text


def _shallow(value: JsonValue, depth: int = 8) -> JsonValue:
    """Refuse a value of which launch.json cannot be written: json.dumps fails at a depth that json.loads reads."""
    if not depth:
        raise ValueError("its values are nested too deeply")
    if isinstance(value, str):
        _utf_8(value)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("it is no finite number")
    elif isinstance(value, dict | list):
        for each in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
            _shallow(each, depth - 1)
    return value


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("it is null")
    return value


def _run_name(text: str) -> str:
    if not is_run_name(text):
        raise ValueError("it is no name of a run")
    return text


def _location(text: str) -> str:
    """Refuse a path that depends on the working directory, and one that leaves the directory that it begins with."""
    if not (scheme_of(text) or text.startswith(("/", "s3://"))) or ".." in text.split("/"):
        raise ValueError("it is no location of a checkpoint")
    return text


_Line = Annotated[str, Field(max_length=1024), AfterValidator(_one_line)]
_Moment = Annotated[str, Field(max_length=64), AfterValidator(_one_line), AfterValidator(_moment)]
_Text = Annotated[str, AfterValidator(_utf_8)]
_Json = Annotated[JsonValue, AfterValidator(_shallow)]
# The name of a file beside the job file. Paths and hidden files are refused.
_FileName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$")]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_STRICT = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


class _Price(BaseModel):
    model_config = _STRICT
    instance_type: _Line
    bought: _Line
    region: _Line
    usd_per_hour: Annotated[float, Field(ge=0, le=1_000_000)] | None
    as_of: _Line | None


class _Nodes(BaseModel):
    model_config = _STRICT
    count: Annotated[int, Field(ge=1, le=1_000_000)]
    instance_type: _Line
    price: _Price | None = None


class _CodeChange(BaseModel):
    model_config = _STRICT
    at: _Moment
    before: _Digest | None
    after: _Digest
    files: Annotated[list[_Line], Field(max_length=1000)] | None = None
    more_files: Annotated[int, Field(ge=0)] = 0


class _Evaluation(BaseModel):
    model_config = _STRICT
    run: Annotated[str, AfterValidator(_run_name)]
    step: Annotated[int, Field(ge=0)]
    checkpoint: Annotated[_Line, AfterValidator(_location)]


class _Options(BaseModel):
    """The options of a launch. No command reads a file or a directory of this machine that they name."""

    model_config = _STRICT
    platform_file: _Line
    group: _Line | None = None
    code: _Line | None = None
    code_version: dict[_Line, _Json] | None = None
    code_digest: _Digest | None = None
    code_changes: Annotated[list[_CodeChange], Field(max_length=1000)] = Field(default=[])
    image: _Line | None = None
    allow_tcp: bool = False
    # The launch of a run that evaluates nothing leaves the key out.
    evaluation: Annotated[_Evaluation | None, AfterValidator(_not_null)] = None
    evaluation_directory: _Line | None = None
    evaluation_team: _Line | None = None
    evaluation_code_digest: _Digest | None = None
    target: dict[_Line, _Json]


class _Launch(BaseModel):
    """The content of launch.json, which trainway/launch/runs/run_directory.py writes at a submission."""

    model_config = _STRICT
    target: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
    handle: dict[_Line, _Line]
    options: _Options
    nodes: _Nodes | None = None
    started: _Moment
    first_started: _Moment
    ended: _Moment | None = None


class _Record(BaseModel):
    model_config = _STRICT
    run: str
    team: str | None
    owner: Annotated[_Line, Field(min_length=1)]
    started: _Moment
    files: dict[_FileName, _Text]
    launch: _Launch | None = None
    attempts: Annotated[int, Field(ge=1, le=1_000_000)] = 1


def parse(text: str, key: str) -> RunRecord:
    """Return the record in the text of the object at a key.

    Raises ValueError for a text that is not a record of this version's schema, or that is the record of another key.
    """
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(stated, dict) or stated.pop("schema_version", None) != SCHEMA_VERSION:
        raise ValueError("it is no record of a run that this version of Trainway can read")
    try:
        found = _Record.model_validate(stated)
    except (ValidationError, RecursionError) as error:
        raise ValueError(first_problem(error)) from None
    if not is_run_name(found.run) or key_of(found.team, found.run) != key:
        raise ValueError("it names another run than its key")
    if "job.yaml" not in found.files:
        raise ValueError("it has no job file")
    if found.launch and (problem := handle_problem(found.launch.target, found.launch.handle, found.run)):
        raise ValueError(f"launch.handle: {problem}")
    return RunRecord(**stated)


def first_problem(error: ValidationError | RecursionError) -> str:
    """Describe the first invalid value by its keys. The description does not contain the value."""
    if isinstance(error, RecursionError):
        return "its values are nested too deeply"
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(each if isinstance(each, str) and each.isidentifier() else "*" for each in problem["loc"])
    return f"{where}: {problem['msg']}"
