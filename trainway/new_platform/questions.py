"""Ask for what a platform is for, one question after another, and again after a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainway.new_platform.account import free_ranges, ranges_in_use, reserved
from trainway.new_platform.text import checked_text
from trainway.new_platform.wishes import (
    BLOCK,
    RANGE,
    Wishes,
    capacities_for,
    check_region,
    check_type,
    check_zone,
    regions_for,
    zones_for,
    zones_of,
)
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.problems import KeyPath, Problem, SpecError
from trainway.spec.sections.orchestrator import Orchestrator

NONE, NEW = "none", "new"
Ask = Callable[[str, str | None], str]
"""A function from a question and a proposed answer, or None, to the answer of a person."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """A question, by the name of its option.

    `read` returns the wishes with an answer, and raises UsageError for one that cannot be. `keys` are those of the
    platform file that the answer is about. `propose` returns the answer of somebody who has none, or None where
    everybody must answer; the answer of the account is asked for if its second argument is true. `applies` returns
    whether there is something to ask.
    """

    option: str
    keys: tuple[KeyPath, ...]
    text: Callable[[Wishes], str]
    read: Callable[[str, Wishes, bool], Wishes]
    propose: Callable[[Wishes, bool], str | None] = lambda _wishes, _asks: None
    applies: Callable[[Wishes], bool] = lambda _wishes: True

    def concerns(self, problem: Problem) -> bool:
        """Return whether a problem of the file is one of this answer."""
        return any(problem.key[: len(key)] == key for key in self.keys)


def answered(given: Mapping[str, str], ask: Ask | None, say: Say) -> Wishes:
    """Return the wishes of options, and of the answers of a person to what they leave open.

    `ask` is None where nobody can be asked. Without a question that must be answered, no other is asked either. Raises
    UsageError for an option that cannot be, and for an answer that is missing where nobody can be asked.
    """
    wishes = Wishes(file_system="no-file-system" not in given)
    is_asked = False
    for question in QUESTIONS:
        if not question.applies(wishes):
            _refuse_useless(question.option, given)
            continue
        if question.option in given:
            wishes = question.read(given[question.option], wishes, False)
        elif (proposed := question.propose(wishes, is_asked)) is not None and not is_asked:
            wishes = question.read(proposed, wishes, False)
        elif ask is None:
            option = f"--{question.option}"
            raise usage_error(option, why="it was not given, and there is no terminal to ask at", fix=f"give {option}")
        else:
            is_asked = True
            wishes = _asked(question, wishes, ask, say)
    while ask is not None and is_asked and (problems := checked_text(wishes)[1]):
        again = [each for each in QUESTIONS if each.option not in given and any(map(each.concerns, problems))]
        if not again:
            break
        for question in again:
            say(_told(problem for problem in problems if question.concerns(problem)))
            wishes = _asked(question, wishes, ask, say)
    return wishes


def _refuse_useless(option: str, given: Mapping[str, str]) -> None:
    """Raise UsageError for an option that says nothing about this platform. Slurm has no administrator of a cluster."""
    if option in given and option != "admin":
        why = "it says nothing about this platform: nothing has such times, or the VPC is a new one"
        raise usage_error(f"--{option} {given[option]}", why=why, fix="leave it out")


def _asked(question: Question, wishes: Wishes, ask: Ask, say: Say) -> Wishes:
    """Return the wishes with an answer that can be. Ask until there is one."""
    while True:
        try:
            candidate = question.read(ask(question.text(wishes), question.propose(wishes, True)).strip(), wishes, True)
            problems = [problem for problem in checked_text(candidate)[1] if question.concerns(problem)]
        except UsageError as error:
            say(str(error))
            continue
        if not problems:
            return candidate
        say(_told(problems))


def _told(problems: Iterable[Problem]) -> str:
    found = tuple(problems)
    return "\n".join(line for line in str(SpecError(found)).splitlines()[:-1]).replace(f"{found[0].file}:", "line ")


def _type(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    check_type(word)
    return replace(wishes, instance_type=word)


def _orchestrator(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    kinds = [each.value for each in Orchestrator]
    if word not in kinds:
        raise usage_error(f"orchestrator {word}", why="there is no such orchestrator", fix=f"use {', '.join(kinds)}")
    return replace(wishes, orchestrator=Orchestrator(word))


def _region(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    wishes = replace(wishes, region=word)
    check_region(wishes)
    zones_of(wishes)
    return wishes


def _capacity(word: str, wishes: Wishes, asks: bool) -> Wishes:
    """Read how the nodes are bought. If the account has it, the next questions propose its zone, times, and count."""
    wishes = replace(wishes, capacity=word, start=None, end=None, zone=None)
    known = reserved(word, wishes.region) if asks and ":" in word and not _problems(wishes, CAPACITY) else None
    if known is None:
        return wishes
    if known.instance_type != wishes.instance_type:
        why = f"it has {known.instance_type}, and the nodes are {wishes.instance_type}"
        raise usage_error(word, why=why, fix="name another one, or begin again with that instance type")
    return replace(wishes, zone=known.zone or None, count=known.count or 1, start=known.start, end=known.end)


def _start(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    if word == NONE:
        return replace(wishes, start=None, end=None)
    return replace(wishes, start=word, end=wishes.end or word)


def _end(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    return replace(wishes, end=word)


def _zone(word: str, wishes: Wishes, asks: bool) -> Wishes:
    wishes = replace(wishes, zone=word)
    check_zone(wishes)
    known = reserved(wishes.capacity, wishes.region) if asks and ":" in wishes.capacity else None
    if known and known.zone not in ("", word):
        raise usage_error(f"--zone {word}", why=f"{wishes.capacity} is in {known.zone}", fix=f"write {known.zone}")
    return wishes


def _name(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    return replace(wishes, name=word)


def _count(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    if not word.isdecimal() or int(word) < 1:
        raise usage_error(f"--count {word}", why="it is no number of nodes", fix="write it as in 4")
    return replace(wishes, count=int(word))


def _as_many_as_reserved(wishes: Wishes, asks: bool) -> str | None:
    """Return the number of reserved nodes, if AWS told it."""
    return str(wishes.count) if asks and ":" in wishes.capacity and wishes.count > 1 else None


def _vpc(word: str, wishes: Wishes, _asks: bool, table: str | None = None) -> Wishes:
    """Read where the platform is. The section of an existing VPC comes from AWS, whoever asks."""
    if word == NEW:
        return replace(wishes, existing=None)
    if not word.startswith("vpc-"):
        raise usage_error(f"--vpc {word}", why="it is no ID of a VPC", fix=f"write {NEW}, or an ID as in vpc-0a1b2c3d")
    from trainway.adopt.network import look_at_network

    found = look_at_network(word, platform=wishes.name, region=wishes.region, subnets={}, route_table_id=table)
    existing = found.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return replace(wishes, existing=existing, cidr=RANGE)


def _table(word: str, wishes: Wishes, asks: bool) -> Wishes:
    return _vpc(str((wishes.existing or {})["vpc_id"]), wishes, asks, word)


def _range(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    return replace(wishes, cidr=word)


def _free(wishes: Wishes, asks: bool) -> str | None:
    """Return a range that nobody uses: of a VPC that exists, or for a new one beside the account's others."""
    if wishes.existing is not None:
        candidates = map(str, free_ranges(wishes.existing))
        return next((each for each in candidates if not _problems(replace(wishes, cidr=each), NETWORK)), RANGE)
    used = ranges_in_use(wishes.region) if asks else []
    from ipaddress import IPv4Network

    others = (IPv4Network(f"10.{number}.0.0/16") for number in range(256))
    return next((str(each) for each in others if not any(each.overlaps(other) for other in used)), RANGE)


def _teams(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    """Read names of teams with commas, each with the nodes that it is guaranteed: `research=2, product`."""
    teams = []
    for each in filter(None, map(str.strip, word.split(",") if word != NONE else [])):
        name, _, nodes = each.partition("=")
        if nodes and not nodes.strip().isdecimal():
            why = "what follows = is no number of nodes"
            raise usage_error(f"--team {each}", why=why, fix="write it as in research=2, or research alone")
        teams.append((name.strip(), int(nodes or 0)))
    return replace(wishes, teams=tuple(teams))


def _admin(word: str, wishes: Wishes, _asks: bool) -> Wishes:
    return replace(wishes, admin=word)


def _problems(wishes: Wishes, key: KeyPath) -> Sequence[Problem]:
    return [problem for problem in checked_text(wishes)[1] if problem.key[: len(key)] == key]


def _ways(wishes: Wishes) -> str:
    said = {
        "reservation": "reservation:cr-…",
        BLOCK: "capacity-block:cr-…",
        "training-plan": "the ARN of a training plan",
    }
    ways = capacities_for(wishes.instance_type, wishes.orchestrator)
    return f"How the nodes are bought ({', '.join(said.get(way, way) for way in ways)})"


def _regions(wishes: Wishes) -> str:
    regions = regions_for(wishes.instance_type, wishes.orchestrator, file_system=wishes.file_system)
    return f"Region ({', '.join(regions) or 'no Region is known to have all of it'})"


def _is_timed(wishes: Wishes) -> bool:
    return wishes.capacity.startswith((f"{BLOCK}:", "arn:"))


def _where(wishes: Wishes) -> str:
    if wishes.existing is None:
        return "CIDR block of the new VPC"
    return f"CIDR block of {wishes.existing['vpc_id']} for the new subnets"


GROUP: Final = ("node_groups", 0)
CAPACITY: Final[KeyPath] = (*GROUP, "capacity")
NETWORK: Final[KeyPath] = ("network",)
QUESTIONS: Final = (
    Question(
        "type",
        ((*GROUP, "instance_type"),),
        lambda _: "Instance type of the nodes (`trainway instances` lists them)",
        _type,
    ),
    Question(
        "orchestrator",
        (("orchestrator",),),
        lambda _: f"Orchestrator ({', '.join(each.value for each in Orchestrator)})",
        _orchestrator,
    ),
    Question("region", (("region",),), _regions, _region),
    Question("capacity", (CAPACITY,), _ways, _capacity),
    Question(
        "start",
        ((*CAPACITY, "start"),),
        lambda _: f"Start of it in UTC, as in 2026-12-01T11:30Z, or {NONE} if nodes start with the deploy",
        _start,
        lambda wishes, _: wishes.start or NONE,
        _is_timed,
    ),
    Question(
        "end",
        ((*CAPACITY, "end"), (*CAPACITY, "start")),
        lambda _: "End of it in UTC",
        _end,
        lambda wishes, _: wishes.end if wishes.end != wishes.start else None,
        lambda wishes: _is_timed(wishes) and wishes.start is not None,
    ),
    Question(
        "zone",
        (("zones",), (*GROUP, "zone")),
        lambda wishes: f"Zone of the nodes ({', '.join(zones_for(wishes))})",
        _zone,
        lambda wishes, _: wishes.zone or zones_of(wishes)[0],
    ),
    Question("name", (("name",),), lambda _: "Name of the platform", _name),
    Question("count", ((*GROUP, "count"),), lambda _: "Number of nodes", _count, _as_many_as_reserved),
    Question("vpc", ((*NETWORK, "existing"),), lambda _: f"VPC ({NEW}, or the ID of yours)", _vpc, lambda *_: NEW),
    Question(
        "route-table",
        (),
        lambda _: "Route table of the new subnets, which leads to the internet by a NAT gateway",
        _table,
        applies=lambda wishes: wishes.existing is not None and "route_table_id" not in wishes.existing,
    ),
    Question("range", ((*NETWORK, "cidr"),), _where, _range, _free),
    Question(
        "team",
        (("teams",),),
        lambda _: "Teams, each with the nodes that it is guaranteed, as in research=2, product=1",
        _teams,
        lambda *_: NONE,
    ),
    Question(
        "admin",
        (("kubernetes", "admins"),),
        lambda _: "ARN of the IAM role that administers the cluster",
        _admin,
        applies=lambda wishes: wishes.orchestrator.is_kubernetes,
    ),
)
