"""Records of runs that no launch has written: genuine ones of each target with hostile changes of every field.

An attempt is drawn from its number, so that one that did harm is made again. The even ones change each field of the
record's model in turn, and half of these further ones at the same time. The odd ones change what commands act on: a
value of the handle, or the name of a file. Beside each record is a state, whose fields are changed in turn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from tests.launch.registry import launches
from trainway.launch.registry.record import SCHEMA_VERSION, key_of
from trainway.launch.registry.state import VERSION, state_key_of

TEAM = "research"
CANARY = "canary"
SCRIPT = f"<script>{CANARY}</script>"
TARGETS: Mapping[str, dict[str, Any]] = {
    "slurm": launches.SLURM,
    "kubernetes": launches.KUBERNETES,
    "sagemaker": launches.SAGEMAKER,
}
JOB = f"name: nightly\nteam: {TEAM}\nrun:\n  command: [python, train.py]\n"
OTHER_RUN = "of-somebody-else"


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


# Words with a special meaning for a shell, a command-line parser, or a path.
WORDS = (
    *(
        f"1'; touch {CANARY}; echo '",
        f"$(touch {CANARY})",
        f"1`touch {CANARY}`",
        f"1\ntouch {CANARY}\n",
        "a b",
        "*",
        "root",
    ),
    *(f"-oProxyCommand=touch {CANARY}", "--kubeconfig=/dev/stdin", "--help", "-"),
    *(
        f"../../../{CANARY}",
        f"/{CANARY}/../..",
        f"a/{CANARY}",
        f"~/{CANARY}",
        f"a\0{CANARY}",
        "..",
        "/etc/passwd",
        "root",
    ),
)
# The same, and values with a special meaning for a terminal, YAML, a clock, or Python.
VALUES: tuple[Any, ...] = (
    *WORDS,
    *("\x1b]0;told\x07\x1b[2J", "left\u202eright", "\u2066\u200b\ufeff", "a\rb", "\x9b2J", "\u2028", SCRIPT),
    *("", "a" * 300, "a" * 2000, "\ud800", "9" * 400, OTHER_RUN, "other"),
    *(
        "yesterday",
        "2026-11-24T10:00:00",
        "2026-11-24\x1b10:00:00+00:00",
        "0000-01-01T00:00:00+00:00",
        "99999-01-01T00:00:00+00:00",
    ),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-11-24T10:00:00+99:00"),
    *(10**400, 10**30, 2**63, 0, -1, 1.5, float("nan"), float("inf"), True, None),
    *([], {}, ["1"], {"a": {"b": 1}}, {"\ud800": "\ud800"}, _nested(200), _nested(900)),
)
# Values that a launch could write, for another run, cluster, or person.
PLAUSIBLE: Mapping[str, tuple[Any, ...]] = {
    "directory": ("/root/of-somebody-else", "/fsx/runs/../../etc/of-somebody-else", "/-rf"),
    "job": ("1", "00000017", "99999999999"),
    "arn": ("arn:aws:sagemaker:eu-west-1:999999999999:cluster/zyxwvutsrqpo",),
    "region": ("eu-west-1", "us-gov-west-1"),
    "cluster": ("another",),
    "user": ("grace", "root"),
    "context": ("production", "a;b", "a$(b)"),
    "namespace": ("kube-system", "default"),
    "kind": ("MPIJob", "Secret", "RayJob"),
    "name": (OTHER_RUN, f"{OTHER_RUN}-start-2"),
    "logs": ("s3://another/logs", "/fsx/../etc"),
    "target": ("local", "slurm", "kubernetes", "sagemaker", "absent"),
    "job.yaml": (
        "[" * 5000,
        "a: &a [1]\nb: *a\n",
        "!!python/object/apply:os.system [id]",
        JOB.replace(TEAM, "other"),
        f"{JOB}  code: /etc\n",
        f"{JOB}  outputs: s3:/../..\n",
        JOB.replace("python", f"$(touch {CANARY})"),
        f"{JOB}on_checkpoint: {{marker: 's3:/a-{{step}}/done', every: 1, job: /etc/passwd}}\n",
    ),
    "code_digest": (None, "1" * 64),
    "evaluation_team": ("other", None),
}
# Changes of the text of a record.
TEXTS: tuple[Callable[[bytes], bytes], ...] = (
    *(lambda text, part=part: text[: len(text) * part // 7] for part in range(1, 7)),
    lambda text: text.replace(b'"owner"', b'"owner": "\xff\xfe", "owner"', 1),
    lambda text: text.replace(b"{", b'{"schema_version": 1, "schema_version": 99, ', 1),
    lambda text: text.replace(b'"run":', b'"run": "' + OTHER_RUN.encode() + b'", "run":', 1),
    lambda text: text.replace(b'"attempts": 1', b'"attempts": 1e400'),
    lambda text: text.replace(b'"attempts": 1', b'"attempts": ' + b"9" * 5000),
    lambda text: text.replace(b'"schema_version": 1', b'"schema_version": "1"'),
    lambda text: text.replace(b'"target": {}', b'"target": ' + b'{"a":' * 9000 + b"1" + b"}" * 9000),
    lambda text: b"\xef\xbb\xbf" + text,
    lambda _: b"[" * 200_000,
    lambda text: text.decode().encode("utf-16"),
    lambda _: b"",
)
# Ends of the keys of objects that list as records, and are no names of runs.
NAMES = ("a" * 300, "..", "\x1b[2Jname", "a b", "-rf", "left\u202eright", "$(touch canary)")


@dataclass(frozen=True)
class Attempt:
    """An object at the key of a record, and one at that of the run's state.

    `changed` and `changed_of_state` list the hostile fields by the names that `fields_of` yields.
    """

    number: int
    run: str
    target: str
    body: bytes
    changed: frozenset[str]
    state: bytes
    changed_of_state: frozenset[str]

    @property
    def key(self) -> str:
        """The key of the record in the bucket."""
        return key_of(TEAM, self.run)

    @property
    def state_key(self) -> str:
        """The key of the state in the bucket."""
        return state_key_of(TEAM, self.run)


def genuine(run: str, target: str, *, full: bool = True) -> dict[str, Any]:
    """Return the record of a run, as a launch writes it. A `full` record has each field that any launch writes."""
    launch = deepcopy(TARGETS[target])
    digest = "0" * 64
    options = {**launch["options"], "group": None, "image": None, "code": None, "code_digest": None, "target": {}}
    if full:
        options |= {
            "code": "/home/ada/work",
            "code_version": {"commit": "0" * 40, "dirty": False},
            "code_digest": digest,
            "code_changes": [
                {"at": launch["started"], "before": None, "after": digest, "files": ["train.py"], "more_files": 0}
            ],
            "evaluation": {"run": "nightly-1", "step": 5, "checkpoint": "s3:/checkpoints/step-5"},
            "evaluation_directory": "/home/ada/work",
            "evaluation_team": TEAM,
            "evaluation_code_digest": digest,
            "allow_tcp": True,
        }
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "team": TEAM,
        "owner": "ada",
        "started": launch["started"],
        "files": {"job.yaml": JOB},
        "launch": launches.of_run(launch, run) | {"options": options},
        "attempts": 1,
    }


def genuine_state() -> dict[str, Any]:
    """Return the state of a running job, with each field that any run writes."""
    return {
        "schema_version": VERSION,
        "state": "running",
        "attempt": 2,
        "started": 1.7e9,
        "written": 1.7e9 + 60,
        "step": 7,
        "steps": 10,
        "loss": 2.5,
        "stepped": 1.7e9 + 59,
        "step_seconds": 1.5,
        "checkpoint": {"step": 5, "location": "s3:/checkpoints/step-5", "time": 1.7e9 + 50, "every": 5},
        "reason": "the loss is no number",
        "exit_status": 1,
        "nodes": ["train-1 i-0123456789abcdef0", "train-2"],
        "stragglers": "rank 3 on train-2 (GPU 1) is slower than the others by 15 %",
        "restarts": 3,
        "first_step": 6,
        "stepping": 50.0,
        "productive": 40.0,
        "earlier": [
            {
                "state": "failed",
                "attempt": 1,
                "started": 1.7e9 - 60,
                "written": 1.7e9 - 1,
                "step": 5,
                "first_step": 1,
                "stepping": 30.0,
                "productive": 30.0,
                "reason": "the node was lost",
                "exit_status": 1,
            }
        ],
    }


def fields_of(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield the fields of a model and of the models in it, for example `launch.options.code`."""
    for name, field in model.model_fields.items():
        yield f"{above}{name}"
        for inner in _models_in(field.annotation):
            yield from fields_of(inner, f"{above}{name}.")


def field_at(path: tuple[Any, ...]) -> str:
    """Return the name of the field at a path of a record. The positions in a list are one field."""
    return ".".join(each for each in path if isinstance(each, str))


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values within a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*above, key)
        yield from paths(each, (*above, key))


def attempt(number: int, targets: tuple[str, ...] = tuple(TARGETS)) -> Attempt:
    """Return the attempt with a number, on one of the targets."""
    drawn = random.Random(number)
    run, target = f"hostile-{number}", drawn.choice(targets)
    # The handles of targets differ. Their keys come last, so that a number means the same field on each target.
    known = sorted(paths(genuine(run, target)), key=lambda path: path[:2] == ("launch", "handle"))
    acted_on = [each for each in known if each[:2] == ("launch", "handle") or each == ("files", "job.yaml")]
    if number % 2:
        chosen = [acted_on[number // 2 % len(acted_on)]]
    else:
        chosen = [known[number // 2 % len(known)], *(drawn.choice(known) for _ in range(drawn.choice((0, 0, 1, 2))))]
    # A record without the code of a launch is resumed in more steps.
    plain = genuine(run, target, full=False)
    record = plain if drawn.random() < 0.4 and chosen[0] in paths(plain) else genuine(run, target)
    if number % 2 and chosen[0][0] == "files" and drawn.random() < 0.7:
        record["files"][drawn.choice(WORDS)] = "told\n"
        changed = frozenset({"files"})
    else:
        values = WORDS if number % 2 else VALUES
        changed = frozenset(field_at(each) for each in chosen if _change(record, each, values, drawn))
    body = json.dumps(record).encode()
    if number % 2 == 0 and drawn.random() < 0.2:
        body = drawn.choice(TEXTS)(body)
    if drawn.random() < 0.02:
        run = drawn.choice(NAMES)
    return Attempt(number, run, target, body, changed, *_state(number))


def _state(number: int) -> tuple[bytes, frozenset[str]]:
    """Return the text of the state beside the record of an attempt, and the changed fields."""
    drawn, state = random.Random(f"state {number}"), genuine_state()
    # Commands show the reason of a run that has ended, and the steps of one that runs.
    state["state"] = drawn.choice(("running", "running", "succeeded", "stopped", "failed"))
    known = list(paths(state))
    chosen = [known[number % len(known)], *(drawn.choice(known) for _ in range(drawn.choice((0, 0, 1, 2))))]
    changed = frozenset(field_at(each) for each in chosen if _change(state, each, VALUES, drawn))
    body = json.dumps(state).encode()
    return drawn.choice(TEXTS)(body) if drawn.random() < 0.1 else body, changed


def _change(record: dict[str, Any], path: tuple[Any, ...], values: tuple[Any, ...], drawn: random.Random) -> bool:
    """Replace, rename, or remove the value at a path, or add a key beside it. Return whether the path existed."""
    *above, last = path
    inner: Any = record
    try:
        for key in above:
            inner = inner[key]
        if isinstance(inner, list) or values is WORDS or drawn.random() < 0.8:
            if last == "handle":
                choices = tuple(deepcopy(each["handle"]) for each in TARGETS.values())
            else:
                choices = PLAUSIBLE.get(str(last), ())
            _ = inner[last]
            inner[last] = drawn.choice((*values, *choices * (len(values) // 16)))
        elif drawn.random() < 0.4:
            inner.pop(last)
        else:
            name = str(drawn.choice(values))
            inner[name] = inner.pop(last) if drawn.random() < 0.5 else deepcopy(inner[last])
    except (LookupError, TypeError, AttributeError):
        # An earlier change has replaced what held the value.
        return False
    return True


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
