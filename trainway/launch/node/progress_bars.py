"""The step that a progress bar of a training program shows, for programs without `run.metrics`.

The formats are those of tqdm 4.70 (`format_meter` in tqdm/std.py), Lightning 2.6 (pytorch/callbacks/progress),
transformers 5.24 (`ProgressCallback` in trainer_callback.py), and rich 15 (progress.py), as installed and run on
2026-11-29, and of https://github.com/keras-team/keras/blob/master/keras/src/utils/progbar.py (read 2026-11-29).

The launcher sends this file to the nodes beside the starter, which imports it. It requires Python 3.9 and nothing else.
"""

import math
import re

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# torchrun passes on what a rank has written so far, so the bars of several ranks can be on one line.
_RANK = re.compile(r"\[default(\d+)\]:")
# tqdm returns to the line of the outer bar after it has drawn a bar within a bar.
_RETURN = re.compile(r"\x1b\[A\s*$")
# Python refuses to read a number of thousands of digits.
_NUMBER = r"\d{1,15}"
_COUNT = rf"(?P<done>{_NUMBER})/(?P<all>{_NUMBER}|\?)"
# Programs print more than bars, such as a line of 60,000 spaces or digits. Each pattern tries such a run once, from its
# beginning. From each of its characters, the time would grow with the square of its length, while the program waits.
_SPACES = r"(?<! ) *"
_UNIT = r"(?:it|steps?|iter|batch|batches)"
_RATE = rf"(?:(?:[\d.]+|\?){_UNIT}/s|[\d.]+s/{_UNIT})"
_TQDM = re.compile(
    rf"^(?P<name>.*?):?{_SPACES}(?:(?<!\d)\d+%)?\|[^|]*\| *{_COUNT} \[[\d:]+<[^,\]]*, *{_RATE}(?P<more>.*)"
)
# Without a total.
_ENDLESS = re.compile(rf"^(?P<name>.+?): *(?P<done>{_NUMBER})(?P<all>)it \[[\d:]+, *{_RATE}(?P<more>.*)")
_RICH = re.compile(rf"^(?P<name>.*?){_SPACES}(?<![━╸╺])[━╸╺]{{2,}} +(?:\d+% +[\d:-]+ +)?{_COUNT}(?P<more>.*)")
_KERAS = re.compile(rf"^ *{_COUNT} (?:\[[=>.]+\]|━+)(?P<more>.*)$")
_EPOCH = re.compile(rf"\bepoch[ :]*\[?(?P<number>{_NUMBER})(?:/(?P<last>{_NUMBER}))?", re.IGNORECASE)
_TRAINING = re.compile(
    r"(?<![a-z])(?:(?:pre|fine)?-?(?:train|tun)(?:ing)?|steps?|iter(?:ation)?s?)(?![a-z])", re.IGNORECASE
)
# Bars of validation, of inference, and of the preparation of data. Most of their names have one of these.
_OTHER = re.compile(
    r"(?<![a-z])val|eval|test|sanity|predict|infer|generate|generating|generation|sampl|map|filter|load|fetch|token|"
    r"encod|prepar|process|pack|extract|convert|apply|shard|split|data|file|example|compil|captur|checkpoint|save|"
    r"saving|read|writ|build|copy",
    re.IGNORECASE,
)
_LOSS = re.compile(
    r"(?:^|[\s,{(])'?(?:train(?:ing)?[_/])?loss'?\s*[=:]\s*'?([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
)
# Lightning draws this bar first. It counts epochs from 0, as few other programs do.
_LIGHTNING = re.compile(r"^Training: *\|[^|]*\| *0/\?")
# Lightning's bar of rich. Its last epoch is the number of epochs minus 1.
_LIGHTNING_RICH = re.compile(r"^Epoch \d+/\d+ .* • ")
# The dictionaries that the Trainer of transformers prints. Their values are strings since version 5.
_TRAINER = re.compile(r"^\{'(?P<kind>loss|train_runtime)': ")


class ProgressBars:
    """The bars of a program. Several can be at work, and one of them counts the steps.

    A bar whose name says that it is training is sure. A bar without a name can be anything, such as a validation, so it
    counts only as long as the program has drawn no sure one. Bars with other names do not count.
    """

    def __init__(self) -> None:
        self._is_sure = False
        # The bar without a name: its number of steps, how many are done, and whether these are epochs.
        self._all, self._done, self._counts_epochs = 0, 0, False
        self._has_inner_bar = False
        self._is_of_trainer = False
        self._is_over = False
        self._counts_from_0 = False
        # What keras printed in the line above its bar.
        self._epoch: re.Match[str] | None = None

    @property
    def is_of_training(self) -> bool:
        """Whether the bar that counts is surely that of a training. One without a name can be of files."""
        return self._is_sure or self._is_of_trainer

    def read(self, line: str) -> "dict[str, float]":
        """Return `step`, `steps`, and `loss` of a line, as far as a bar of the training has them."""
        found: dict[str, float] = {}
        # Text, and then each rank with its text.
        pieces = ["0", *_RANK.split(line)]
        for at in range(0, len(pieces), 2):
            if pieces[at] == "0":
                found.update(self._of_rank_0(pieces[at + 1]))
        return found

    def _of_rank_0(self, text: str) -> "dict[str, float]":
        plain = ESCAPES.sub("", text).replace("\b", "").strip()
        if said := _TRAINER.match(plain):
            return self._of_trainer(plain, said["kind"])
        if bar := _KERAS.match(plain):
            return self._of_keras(bar)
        bar = _TQDM.match(plain) or _RICH.match(plain) or _ENDLESS.match(plain)
        if bar is None:
            self._epoch = _EPOCH.fullmatch(plain) or self._epoch
            return {}
        is_rich = _LIGHTNING_RICH.match(plain) is not None
        self._counts_from_0 |= is_rich or _LIGHTNING.match(plain) is not None
        if name := bar["name"].strip():
            return self._named(bar, name, is_rich)
        return {} if self._is_sure else self._nameless(bar, is_inner=_RETURN.search(text) is not None)

    def _of_trainer(self, text: str, kind: str) -> "dict[str, float]":
        """Return the loss of a dictionary of the Trainer, which has no step."""
        # What follows the last dictionary are evaluations, whose bars have no name either.
        self._is_over = kind == "train_runtime"
        self._is_of_trainer = not self._is_over and self._all > 0
        return {} if self._is_over else _loss(text)

    def _of_keras(self, bar: "re.Match[str]") -> "dict[str, float]":
        """Return the step of a bar below a line such as `Epoch 1/5`. Bars of an evaluation have no such line."""
        if self._epoch is None:
            return {} if self._is_over else _numbers(bar)
        self._is_sure = True
        found = self._of_epoch(bar, self._epoch, epochs_after_last=0)
        if bar["done"] == bar["all"]:
            self._epoch, self._is_over = None, True
        return found

    def _named(self, bar: "re.Match[str]", name: str, is_rich: bool) -> "dict[str, float]":
        epoch = _EPOCH.search(name)
        if _OTHER.search(name) or (epoch is None and ("epoch" in name.lower() or not _TRAINING.search(name))):
            return {}
        self._is_sure = True
        return _numbers(bar) if epoch is None else self._of_epoch(bar, epoch, epochs_after_last=int(is_rich))

    def _of_epoch(self, bar: "re.Match[str]", epoch: "re.Match[str]", epochs_after_last: int) -> "dict[str, float]":
        """Return the step, from the first epoch on, of a bar that begins again with each epoch."""
        found, number = _numbers(bar), int(epoch["number"])
        found.pop("steps", None)
        self._counts_from_0 |= number == 0
        epochs_before = number if self._counts_from_0 else number - 1
        if epochs_before and not bar["all"].isdigit():
            # How long an epoch is, is unknown.
            found.pop("step", None)
        if "step" in found and bar["all"].isdigit():
            found["step"] += epochs_before * int(bar["all"])
            if epoch["last"]:
                found["steps"] = int(bar["all"]) * (int(epoch["last"]) + epochs_after_last)
        return found

    def _nameless(self, bar: "re.Match[str]", *, is_inner: bool) -> "dict[str, float]":
        if is_inner:
            self._has_inner_bar = True
            return {}
        if self._is_over or not bar["all"].isdigit():
            return {}
        done, steps = int(bar["done"]), int(bar["all"])
        if steps != self._all:
            # A shorter one is that of an evaluation, and an earlier one may be that of the data.
            if self._is_of_trainer or steps < self._all:
                return {}
            self._all, self._done = steps, 0
        if done != self._done:
            # A bar that moves on once for each bar within it counts epochs.
            self._counts_epochs = self._has_inner_bar and not self._is_of_trainer
            self._done, self._has_inner_bar = done, False
        return {} if self._counts_epochs else _numbers(bar)


def _numbers(bar: "re.Match[str]") -> "dict[str, float]":
    """Return the numbers of a bar. Before its first step, there are none."""
    if not int(bar["done"]):
        return {}
    steps = {"steps": int(bar["all"])} if bar["all"].isdigit() else {}
    return {"step": int(bar["done"]), **steps, **_loss(bar["more"])}


def _loss(text: str) -> "dict[str, float]":
    found = _LOSS.search(text)
    # JSON has no Infinity.
    return {"loss": float(found.group(1))} if found is not None and math.isfinite(float(found.group(1))) else {}
