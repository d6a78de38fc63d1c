"""Synthesizing an example as `cdk synth` does, in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.synthesis_cache import assembly_of
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

if TYPE_CHECKING:
    import aws_cdk as cdk

ROOT = Path(__file__).parents[1]
EXAMPLES = (ROOT / "platform.yaml", *sorted((ROOT / "examples").glob("*.yaml")))
Template = dict[str, Any]

# Columns of a golden template. A longer string is on one line all the same.
GOLDEN_WIDTH = 150
# What changes with every release or edit of the delivered files and says nothing about the stacks: the version, and
# hashes of assets and bundles. The patterns match the JSON of a whole template on one line.
CONTENT = (
    (re.compile(r"(Delivery[A-Z][a-z]+(?:Done|Handle))[0-9a-f]{16}[0-9A-F]{8}"), r"\1<content>"),
    (re.compile(r"[0-9a-f]{64}\.(zip|json)"), r"<asset>.\1"),
    (re.compile(r'(STAGE_CONTENT\\", \\"value\\": \\")[0-9a-f]{16}'), r"\1<content>"),
    (re.compile(r'(\\"trainway\\": ?\{\\"version\\": ?\\")[0-9.]+'), r"\1<version>"),
    (re.compile(r'((?:lifecycle_scripts/|":|"Value": "|BASE_TAG\\":\\"))[0-9a-f]{16}\b'), r"\1<content>"),
    (re.compile(r'("Value": "(?:packages-|dockerfile-))[0-9a-f]{16}\b'), r"\1<content>"),
    (re.compile(r"(/training(?:-[a-z0-9-]+)?:)[0-9a-f]{16}\b"), r"\1<content>"),
    (re.compile(r'("prefix": "|/delivery/bills/(?:packages-|dockerfile-)?)[0-9a-f]{16}\b'), r"\1<content>"),
)


@cache
def context() -> dict[str, Any]:
    """The feature flags that the CDK's command line reads from cdk.json."""
    loaded: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return loaded


def make_app(platform_file: Path, out: Path) -> cdk.App:
    """The app with its stacks, not yet synthesized."""
    import aws_cdk as cdk

    from stacks.platform import add_stacks

    compress_once()
    app = cdk.App(outdir=str(out), context=context())
    add_stacks(app, load_platform(platform_file))
    return app


@cache
def compress_once() -> None:
    """Compress the same bundle once in this process. Most platforms of the tests deliver the same files of the image.

    The compression takes a tenth of the CPU time of a synthesis.
    """
    from stacks.constructs.delivery.bundle import Bundle

    archive, archives = Bundle.archive, dict[tuple[str, str], bytes]()

    def archive_once(bundle: Bundle, folder: Path) -> Path:
        key = (bundle.directory.name, bundle.content)
        if key not in archives:
            archives[key] = archive(bundle, folder).read_bytes()
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / f"{bundle.directory.name}.zip"
        written.write_bytes(archives[key])
        return written

    Bundle.archive = archive_once  # type: ignore[assignment,method-assign]


def templates(app: cdk.App) -> dict[str, Template]:
    """Templates by the stack's role: `network`, `storage`, `control-plane`, `cluster` and so on."""
    stacks = app.synth().stacks
    platform = platform_of(stack.stack_name for stack in stacks)
    return {role_of(stack.stack_name, platform): stack.template for stack in stacks}


def templates_of(platform: Path | Platform) -> dict[str, Template]:
    """Return the templates of a platform or a platform file by the stack's role, from the cache if they are there.

    The caller may change what is returned.
    """
    return templates_in(assembly_in(platform))


def templates_in(assembly: Path) -> dict[str, Template]:
    """Return the templates of a cloud assembly by the stack's role."""
    stacks = _stacks(assembly)
    return {
        role_of(name, platform_of(stacks)): json.loads(
            (assembly / stack["properties"]["templateFile"]).read_text("utf-8")
        )
        for name, stack in stacks.items()
    }


def stack_dependencies(assembly: Path) -> dict[str, list[str]]:
    """Return the roles of the stacks that each stack of a cloud assembly is deployed after, by its own role."""
    stacks = _stacks(assembly)
    platform = platform_of(stacks)
    return {
        role_of(name, platform): [role_of(below, platform) for below in stack["dependencies"] if below in stacks]
        for name, stack in stacks.items()
    }


def _stacks(assembly: Path) -> dict[str, dict[str, Any]]:
    """Return what the manifest of a cloud assembly says of each stack, by the stack's name."""
    listed = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    return {name: artifact for name, artifact in listed.items() if artifact["type"] == "aws:cloudformation:stack"}


def assembly_in(platform: Path | Platform) -> Path:
    """Return the directory of the cloud assembly of a platform or a platform file, which nobody may change."""
    return assembly_of(load_platform(platform) if isinstance(platform, Path) else platform, _synthesize)


def _synthesize(platform: Platform, out: Path) -> None:
    import aws_cdk as cdk

    from stacks.extended import synthesize

    compress_once()
    # Omit tree.json, which no test reads. Writing tree.json takes a sixth of the CPU time of a synthesis.
    synthesize(cdk.App(outdir=str(out), context=context(), tree_metadata=False), platform)


def platform_of(stack_names: Iterable[str]) -> str:
    """The platform's name, which begins those of its stacks."""
    return next(name.removesuffix("-network") for name in stack_names if name.endswith("-network"))


def role_of(stack_name: str, platform: str) -> str:
    """What a stack is for: its name without the platform's."""
    return stack_name.removeprefix(f"{platform}-")


def resources(template: Template, kind: str) -> dict[str, Any]:
    """Properties of the template's resources of one type, by logical id."""
    return {
        name: resource.get("Properties", {})
        for name, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def all_resources(stacks: Mapping[str, Template], kind: str) -> dict[tuple[str, str], Any]:
    """Properties of all stacks' resources of one type, by the stack's role and the logical id."""
    return {(role, name): each for role, template in stacks.items() for name, each in resources(template, kind).items()}


def golden_text(template: Template) -> str:
    """Return a template as it is kept: JSON with sorted keys, and with the hashes of content masked."""
    return _laid_out(json.loads(_masked(template)), 0, 0) + "\n"


def digest(template: Template) -> str:
    """Return a checksum of a template, with the hashes of content masked."""
    return sha256(_on_one_line(json.loads(_masked(template))).encode()).hexdigest()


def _masked(template: Template) -> str:
    text = _on_one_line(template)
    for pattern, replacement in CONTENT:
        text = pattern.sub(replacement, text)
    return text


def _on_one_line(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _laid_out(value: Any, indent: int, column: int) -> str:
    """Return JSON that begins at a column of a line with this indent: one line if it fits, otherwise a line an item.

    An object or array with a single item does not begin a line for it. Neither does an array that has only scalars
    before its last array, such as the arguments of Fn::Join.
    """
    text = _on_one_line(value)
    if column + len(text) <= GOLDEN_WIDTH or not value or not isinstance(value, (dict, list)):
        return text
    if isinstance(value, dict):
        (opened, closed), items = "{}", [(f"{_on_one_line(key)}: ", value[key]) for key in sorted(value)]
    else:
        (opened, closed), items = "[]", [("", each) for each in value]
    *scalars, (key, last) = items
    if not scalars or (
        isinstance(value, list)
        and isinstance(last, list)
        and not any(isinstance(each, (dict, list)) for _, each in scalars)
    ):
        begun = opened + "".join(f"{_on_one_line(each)}, " for _, each in scalars) + key
        return begun + _laid_out(last, indent, column + len(begun)) + closed
    line = "\n" + " " * (indent + 1)
    lines = [f"{line}{key}{_laid_out(each, indent + 1, indent + 2 + len(key))}" for key, each in items]
    return f"{opened}{','.join(lines)}\n{' ' * indent}{closed}"


def golden_file(platform_file: Path, role: str) -> Path:
    """Return where the golden template of one stack of an example is, below `examples` for platform.yaml too."""
    return ROOT / "examples" / f"{platform_file.stem}.golden" / f"{role}.json"
