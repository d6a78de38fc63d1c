"""Reads a file into its typed model, or says everything that is wrong with it. The only I/O of `trainway.spec`."""

from __future__ import annotations

import copy
import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from trainway.spec.additions import NO_ADDITIONS, Additions
from trainway.spec.deployment.expiry import from_the_future, of_a_day
from trainway.spec.details import first_hand, key_path
from trainway.spec.document import Document, read_document
from trainway.spec.extension import ExtensionError, find_extension
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.facts.versions import VERSIONS_FILE, Versions, combination_named
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.image_build import beside
from trainway.spec.image.version_rules import VERSION_RULES, requirements_are_listed
from trainway.spec.lock import Lock, contradictions, lock_file
from trainway.spec.package_lock import PackageLockError, package_lock_file, read_package_lock
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath, Problem, SpecError
from trainway.spec.rule import PUBLISHED_RULES, Breach, name_of, path_of_image
from trainway.spec.rules import RULES
from trainway.spec.stand_ins import in_both, with_stand_ins
from trainway.spec.user_dockerfile import UserDockerfileError, require_dockerfile

Model = TypeVar("Model", bound=BaseModel)
# A breach, and the name of its rule if a platform file can accept it.
NamedBreach = tuple[KeyPath, str, str, str | None]


def load_platform(
    file: Path,
    catalogue: Catalogue | None = None,
    *,
    today: date | None = None,
    locked: bool = True,
    accept: Iterable[str] = (),
) -> Platform:
    """Return the platform that a file describes, checked against the catalogue.

    The platform has the lock that stands beside the file, or an empty one, the module that `extend` names, and what its
    image has on its base.

    Without `locked`, the lock of the Python packages of its image may be missing, or made for others.

    `accept` names rules that need not hold, in addition to those of the file's own `accept`.

    With `today`, a day in UTC, the file must also be valid on that day: its Kubernetes version has standard support,
    and the image's packages are not those of a later day.

    Raises SpecError with every problem of the file: those of single keys, and those between keys as far as they can
    be told while a key is wrong. Where trainway/spec/facts/versions.yaml is wrong, it is about that file.
    """
    document = read_document(file)
    lock = load_lock(lock_file(file))
    check = partial(
        _complete_and_check,
        file=file,
        lock=lock,
        catalogue=catalogue or load_catalogue(),
        today=today,
        locked=locked,
        accept=tuple(accept),
    )
    platform, problems = validate(document, Platform)
    if platform is not None:
        platform, breaches = check(platform)
    else:
        breaches = _breaches_of_any(document, lambda stand_in: check(stand_in)[1])
    problems += [document.problem(*breach) for breach in breaches]
    if platform is None or problems:
        raise SpecError(problems)
    return platform


def _complete_and_check(
    platform: Platform,
    *,
    file: Path,
    lock: Lock,
    catalogue: Catalogue,
    today: date | None,
    locked: bool,
    accept: Iterable[str],
) -> tuple[Platform, list[NamedBreach]]:
    """Return the platform with what stands beside its file, and all that is wrong with it. See `load_platform`."""
    platform, breaches = platform.with_lock(lock), list[NamedBreach]()
    if platform.extend is not None:
        try:
            platform = platform.with_extension(find_extension(platform.extend, file.parent))
        except ExtensionError as error:
            breaches.append((("extend",), error.reason, error.remedy, None))
    additions, wrong = find_additions(platform, file, load_versions(), locked=locked)
    platform = platform.with_additions(additions)
    breaches += [(*breach, None) for breach in wrong]
    accepted = {each.rule for each in platform.accept} | set(accept)
    for rule in RULES:
        name = name_of(rule) if name_of(rule) in PUBLISHED_RULES else None
        if name is None or name not in accepted:
            breaches += [(*breach, name) for breach in rule(platform, catalogue)]
    if today:
        of_today = of_a_day(platform, today)
        breaches += [(*breach, None) for breach in of_today]
    return platform, breaches


def _breaches_of_any(document: Document, check: Callable[[Platform], list[NamedBreach]]) -> list[NamedBreach]:
    """Return what is wrong with a file whatever its wrong keys will be. The file has no platform without them."""
    try:
        Platform.model_validate(document.data)
    except ValidationError as error:
        data = _without(document, first_hand(error.errors(include_url=False)))
        platforms, changed = with_stand_ins(document, data)
        if platforms:
            one, other = map(check, platforms)
            return in_both(one, other, changed)
    return []


def require_snapshots(platform: Platform, file: Path, today: date) -> None:
    """Raise SpecError if packages of an image are to be those of a day after `today`, a day in UTC."""
    document = read_document(file)
    if problems := [document.problem(*breach) for breach in from_the_future(platform, today)]:
        raise SpecError(problems)


def find_additions(
    platform: Platform, file: Path, versions: Versions, *, locked: bool
) -> tuple[dict[str, Additions], list[Breach]]:
    """Return what images of a platform file have on their bases, and what is wrong with that, which is left out."""
    found, breaches = dict[str, Additions](), list[Breach]()
    for name in platform.image_names:
        additions, wrong = _additions_of(platform.of_image(name), file, versions, locked=locked)
        if additions != NO_ADDITIONS:
            found[name] = additions
        breaches += [(path_of_image(name, path), reason, remedy) for path, reason, remedy in wrong]
    return found, breaches


def _additions_of(
    platform: Platform, file: Path, versions: Versions, *, locked: bool
) -> tuple[Additions, list[Breach]]:
    image, breaches = platform.image, list[Breach]()
    packages, directory = None, file.parent / image.dockerfile if image.dockerfile is not None else None
    if locked and image.packages.pip and (image.versions is None or combination_named(versions, image.versions)):
        try:
            lock = package_lock_file(file, platform.image_name)
            packages = read_package_lock(lock, image.packages.pip, beside(platform, versions))
        except PackageLockError as error:
            named = "" if platform.image_name == DEFAULT_IMAGE else f" --image {platform.image_name}"
            fix = f"run `trainway image lock {file}{named}`, and commit what it writes"
            breaches.append((("image", "packages", "pip"), error.reason, fix))
    if directory is not None:
        try:
            require_dockerfile(directory)
        except UserDockerfileError as error:
            breaches.append((("image", "dockerfile"), error.reason, error.remedy))
            directory = None
    return Additions(packages, directory), breaches


def load_lock(file: Path) -> Lock:
    """Return the lock that a file describes; of a file that does not exist, an empty one.

    Raises SpecError with every problem of the file.
    """
    if not file.exists():
        return Lock()
    document = read_document(file)
    lock, problems = validate(document, Lock)
    if lock is not None:
        problems += [document.problem(*breach) for breach in contradictions(lock)]
    if lock is None or problems:
        raise SpecError(problems)
    return lock


@functools.cache
def load_versions(file: Path = VERSIONS_FILE, *, lists: frozenset[str] | None = None) -> Versions:
    """Return the versions that the training image can be built from.

    `lists` are the names of the files in container/requirements. Whoever builds the image passes them, and then every
    release must have its list. Raises SpecError with every problem of the file.
    """
    document = read_document(file)
    versions, problems = validate(document, Versions)
    if versions is not None:
        breaches = [breach for rule in VERSION_RULES for breach in rule(versions)]
        if lists is not None:
            breaches += requirements_are_listed(versions, lists)
        problems += [document.problem(*breach) for breach in breaches]
    if versions is None or problems:
        raise SpecError(problems)
    return versions


def load(file: Path, model: type[Model]) -> Model:
    """Return the value of `model` that a file describes. Raises SpecError with every problem of the file."""
    value, problems = validate(read_document(file), model)
    if value is None or problems:
        raise SpecError(problems)
    return value


def validate(document: Document, model: type[Model]) -> tuple[Model | None, list[Problem]]:
    """Validate data against the model. Return the value of the model, and the problems.

    Where keys are wrong that the model can do without, the value is the one without them, so that rules between the
    other keys can still be checked and one run shows everything.
    """
    try:
        return model.model_validate(document.data), []
    except ValidationError as error:
        details = first_hand(error.errors(include_url=False))
    problems = [_problem(document, model, detail) for detail in details]
    try:
        return model.model_validate(_without(document, details)), problems
    except ValidationError:
        return None, problems


def _without(document: Document, details: list[ErrorDetails]) -> dict[str, Any]:
    """Return the data of the file without the keys that have problems."""
    data = copy.deepcopy(document.data)
    for detail in details:
        *parents, last = key_path(document, detail) or ("",)
        holder: Any = data
        for part in parents:
            holder = holder.get(part) if isinstance(holder, dict) else holder[part] if holder is not None else None
        if isinstance(holder, dict):
            holder.pop(last, None)
    return data


_INTEGER = ("it is not a whole number", "write a whole number, without quotes, for example `{key}: 4`")
_NUMBER = ("it is not a number", "write a number, without quotes, for example `{key}: 0.5`")
_BOOLEAN = ("it is neither true nor false", "write true or false, without quotes, for example `{key}: true`")
# Reason and remedy of the errors that pydantic describes to programmers. The field's description follows the remedy.
# https://docs.pydantic.dev/latest/errors/validation_errors/ (read 2026-11-24)
_SIMPLE = {
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "string_type": ("it is not text", "write text, in quotes if YAML would read it as something else"),
    "greater_than_equal": ("it is less than {ge}", "write {ge} or more"),
    "greater_than": ("it is not more than {gt}", "write more than {gt}"),
    "less_than_equal": ("it is more than {le}", "write {le} or less"),
    "less_than": ("it is not less than {lt}", "write less than {lt}"),
    "string_too_short": ("it is too short", "write {min_length} characters or more"),
    "string_too_long": ("it is too long", "write {max_length} characters or less"),
    "too_short": ("the list is too short", "write {min_length} or more items, as in [a, b]"),
    "too_long": ("the list is too long", "write {max_length} or less items"),
}


def _problem(document: Document, model: type[BaseModel], detail: ErrorDetails) -> Problem:
    path, context = key_path(document, detail), detail.get("ctx", {})
    reason = detail["msg"]
    match detail["type"]:
        case "extra_forbidden" if (removed := _removed(_section_at(model, path[:-1]), path[-1])) is not None:
            reason, remedy = removed
        case "extra_forbidden":
            known = _keys(_section_at(model, path[:-1], branches=detail["loc"]))
            close = difflib.get_close_matches(str(path[-1]), known, n=1)
            reason = "there is no such key here"
            remedy = f"did you mean {close[0]}?" if close else f"the keys here are {', '.join(known)}"
        case "missing":
            reason = "the key is required"
            remedy = f"add it: {_description(model, path)}"
        case "literal_error" | "enum":
            reason, remedy = "it is none of the values this key can have", f"write {context.get('expected', 'another')}"
        case "model_type" | "dict_type":
            reason, remedy = "it is not a section of keys", f"write keys below it: {_description(model, path)}"
        case "tuple_type" | "list_type":
            reason, remedy = "it is not a list", "write it in brackets, as in [a, b], or one item a line with a dash"
        case _ if "remedy" in context:
            remedy = context["remedy"]
        case kind if kind in _SIMPLE:
            named = context | {"key": next((part for part in reversed(path) if isinstance(part, str)), "key")}
            reason, remedy = (text.format_map(named) for text in _SIMPLE[kind])
            remedy = f"{remedy}. {_description(model, path, branches=detail['loc'])}"
        case _:
            reason = reason.removeprefix("Value error, ")
            reason = reason[:1].lower() + reason[1:]
            remedy = f"write another value. {_description(model, path, branches=detail['loc'])}"
    return document.problem(path, reason, remedy)


def _description(model: type[BaseModel], path: KeyPath, *, branches: tuple[int | str, ...] = ()) -> str:
    """Return the description of the field at `path` in its model."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    section = _section_at(model, path[:-1], branches=branches) if path else None
    field = _field(section, path[-1]) if section else None
    return (field.description if field else None) or "`trainway schema` describes every key"


def _keys(section: type[BaseModel] | None) -> list[str]:
    """Return the keys of a section as the file spells them."""
    return [field.alias or name for name, field in section.model_fields.items()] if section else []


def _removed(section: type[BaseModel] | None, key: str | int) -> tuple[str, str] | None:
    """Return the reason and the remedy for a key of an earlier release, or None."""
    removed: Mapping[str, tuple[str, str]] = getattr(section, "removed_keys", {})
    return removed.get(str(key))


def _field(section: type[BaseModel], key: str | int) -> FieldInfo | None:
    return next((f for name, f in section.model_fields.items() if (f.alias or name) == key), None)


def _section_at(
    model: type[BaseModel], path: KeyPath, *, branches: tuple[int | str, ...] = ()
) -> type[BaseModel] | None:
    """Return the model of the keys below `path`. If there are several, it is the one whose name is in `branches`."""
    section: type[BaseModel] | None = model
    is_name = False
    for part in path:
        if isinstance(part, int) or is_name:
            is_name = False
            continue  # the items of a list, and the sections of a mapping by name, are described by its own annotation
        field = _field(section, part) if section else None
        is_name = field is not None and get_origin(field.annotation) is dict
        models = _models_in(field.annotation) if field else []
        section = next((each for each in models if each.__name__ in branches), next(iter(models), None))
    return section


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models inside an annotation such as `tuple[Team, ...]` or `dict[str, Image]`, in its order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Annotated, Union, UnionType, tuple, list, dict):
        return [found for argument in get_args(annotation) for found in _models_in(argument)]
    return []
