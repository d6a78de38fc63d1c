"""What must not change between a save and a resume.

`training/config/on_resume.py` has the decision about each key of the job file. The identity has the keys that are
refused, as values that JSON has, and some that are only for the message.
"""

from dataclasses import asdict
from typing import Any, NamedTuple

from training.config import Job
from training.config.presets import Shape

_ABSENT = "not recorded"
# A checkpoint without this one may still fit: its state is read by name, and is refused if it is that of another one.
_LATER = ("optimizer",)
_DIGITS_OF_DIGEST = 12


class ChangedKey(NamedTuple):
    """A key of the job file, with what the run had and what the job file has now."""

    key: str
    was: Any
    now: Any

    def __str__(self) -> str:
        """Return the difference as a part of a sentence."""
        return f"{self.key} was {self.was} in the run, and is {self.now}"


def identity_of(job: Job, shape: Shape, vocabulary: int, tokenizer: str, data: Any) -> dict[str, Any]:
    """Return the identity of a job.

    `vocabulary` and `tokenizer`, a digest, are those of its data, and `data` is the identity of the samples.
    """
    return {
        "model": asdict(shape) | {"vocabulary": vocabulary},
        "tokenizer": tokenizer,
        "data": data,
        "sequence_length": job.data.sequence_length,
        "seed": job.seed,
        "optimizer": job.optimizer.name,
        # The rest is not compared.
        "preset": job.model,
        "locations": list(job.data.shares),
        "held_out": job.evaluation.shards,
    }


def differences(saved: dict[str, Any], now: dict[str, Any]) -> list[ChangedKey]:
    """Return the differences that refuse a resume."""
    found: list[ChangedKey] = []
    if "model" in now:
        found += _of_model(saved, now)
    if "tokenizer" in now and saved.get("tokenizer") != now["tokenizer"]:
        was, other = (_digest(each.get("tokenizer")) for each in (saved, now))
        found.append(ChangedKey("the tokenizer of data.train", was, other))
    if "data" in now:
        found += _of_data(saved, now)
    for name, key in (("sequence_length", "data.sequence_length"), ("seed", "seed"), ("optimizer", "optimizer.name")):
        if name in now and saved.get(name) != now[name] and not (name in _LATER and name not in saved):
            found.append(ChangedKey(key, saved.get(name, _ABSENT), now[name]))
    return found


def _of_model(saved: dict[str, Any], now: dict[str, Any]) -> list[ChangedKey]:
    was, model = saved.get("model") or {}, now["model"]
    changed = [key for key in model if key != "vocabulary" and was.get(key) != model[key]]
    if changed and saved.get("preset", now.get("preset")) != now.get("preset"):
        return [ChangedKey("model", saved["preset"], now["preset"])]
    found = []
    for key in changed:
        before, after = was.get(key, _ABSENT), model[key]
        if isinstance(before, dict) and isinstance(after, dict):
            parts = [each for each in after if before.get(each) != after[each]]
            found += [ChangedKey(f"variant.{key}.{each}", before.get(each), after[each]) for each in parts]
        else:
            found.append(ChangedKey(f"variant.{key}", before, after))
    if was.get("vocabulary") != model.get("vocabulary"):
        found.append(ChangedKey("the vocabulary of data.train", was.get("vocabulary"), model["vocabulary"]))
    return found


def _of_data(saved: dict[str, Any], now: dict[str, Any]) -> list[ChangedKey]:
    was, data = saved.get("data") or {}, now["data"]
    if not was:
        # Weights that were imported have seen no data here.
        return [ChangedKey("data.train", _ABSENT, next(iter(_sources(now)), _ABSENT))]
    found = []
    if was.get("order") != data.get("order"):
        found.append(ChangedKey("the order of the samples", was.get("order", _ABSENT), data["order"]))
    if was.get("shuffle_shards") != data.get("shuffle_shards"):
        before = was.get("shuffle_shards", _ABSENT)
        found.append(ChangedKey("data.shuffle_shards", before, data["shuffle_shards"]))
    if saved.get("held_out", now.get("held_out")) != now.get("held_out"):
        # Other shards are left for training, whose digest is another one.
        found.append(ChangedKey("evaluation.shards", saved["held_out"], now["held_out"]))
    elif was.get("shards") != data.get("shards") or was.get("shares") != data.get("shares"):
        found += _of_sources(_sources(saved), _sources(now))
    return found


def _sources(identity: dict[str, Any]) -> list[str]:
    """Return each source of the samples in words, that of data.train first."""
    data = identity.get("data") or {}
    shards, shares = data.get("shards", []), data.get("shares", [])
    locations = identity.get("locations", ["tokens"] * len(shards))
    sources = list(zip(locations, shards, shares, strict=False))
    return [f"{where} (digest {_digest(shard)}, share {share:g})" for where, shard, share in sources]


def _of_sources(was: list[str], now: list[str]) -> list[ChangedKey]:
    found = []
    if was[:1] != now[:1]:
        found.append(ChangedKey("data.train", *(", ".join(each[:1]) or _ABSENT for each in (was, now))))
    if was[1:] != now[1:]:
        found.append(ChangedKey("data.blend", *(", ".join(each[1:]) or "empty" for each in (was, now))))
    return found


def _digest(digest: str | None) -> str:
    return _ABSENT if digest is None else digest[:_DIGITS_OF_DIGEST]
