"""What the delivery's stages are given, and the commands that they run, are read by what reads them when they run."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.constructs.delivery.bundle import Bundle
from tests.seams.commands import command_lines
from tests.seams.programs import aws_problems, cobra_problems
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.stacks import stacks_of
from tests.synthesis import EXAMPLES, ROOT, resources
from trainway.spec.deployment.stage_times import StageTimes

PHASES = {"install", "pre_build", "build", "post_build"}
# https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html (read 2026-11-22)
SET_BY_CODEBUILD = {"AWS_DEFAULT_REGION", "AWS_REGION"}
DELIVERY = ROOT / "delivery"
SCRIPTS = {
    file.relative_to(DELIVERY).as_posix(): file.read_text(encoding="utf-8") for file in sorted(DELIVERY.rglob("*.sh"))
}
Scripts = Mapping[str, str]


def command_problems(scripts: Scripts) -> list[str]:
    """Return what AWS, helm, and kubectl would refuse in the command lines of the scripts."""
    return [f"{name}: {problem}" for name, text in scripts.items() for problem in _command_problems(text)]


def _command_problems(text: str) -> Iterator[str]:
    for words in command_lines(text, "aws"):
        yield from aws_problems(words)
    for program in ("helm", "kubectl"):
        for words in command_lines(text, program):
            yield from cobra_problems(program, words)


def shell_problems(scripts: Scripts, directory: Path) -> list[str]:
    """Return shellcheck's findings in a copy of the scripts: in those that were changed, or in all of them."""
    (directory / "delivery/organization").mkdir(parents=True)
    for name, text in scripts.items():
        (directory / "delivery" / name).write_text(text, encoding="utf-8")
    shellcheck = str(Path(sys.executable).parent / "shellcheck")
    changed = [name for name, text in scripts.items() if text != SCRIPTS[name]]
    files = [f"delivery/{name}" for name in changed or scripts]
    command = [shellcheck, "--external-sources", "--format=gcc", *files]
    found = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return (found.stdout + found.stderr).splitlines()


def test_the_stages_run_no_command_that_does_not_exist() -> None:
    assert command_problems(SCRIPTS) == []


@pytest.mark.parametrize("program", ["aws", "helm", "kubectl"])
def test_no_command_is_overlooked(program: str) -> None:
    code = [
        line for text in SCRIPTS.values() for line in text.splitlines() if not line.lstrip().startswith(("#", "for "))
    ]
    lines = [line for line in code if re.search(rf"(^|[\s(!]){program} [a-z]", line)]
    found = [words for text in SCRIPTS.values() for words in command_lines(text, program)]
    assert len(found) == len(lines) > 5


def projects(platform: str) -> dict[str, dict[str, Any]]:
    """Return every CodeBuild project of an example or a shape, by its stack and logical id."""
    return {
        f"{role} {name}": copy.deepcopy(properties)
        for role, template in stacks_of(platform).items()
        for name, properties in resources(template, "AWS::CodeBuild::Project").items()
    }


def build_problems(project: dict[str, Any]) -> list[str]:
    """Return what is wrong with a project's buildspec and environment.

    The phases and keys are some of those in CodeBuild's user guide as its repository was archived in 2023,
    build-spec-ref in https://github.com/awsdocs/aws-codebuild-user-guide (read 2026-11-22).
    Each command runs here, in a shell whose environment is empty: the stage then names the variables that it requires.
    """
    spec = yaml.safe_load(project["Source"]["BuildSpec"])
    problems = [f"a buildspec has no {key}" for key in sorted(set(spec) - {"version", "env", "phases", "artifacts"})]
    if str(spec.get("version")) != "0.2":
        problems.append(f"the buildspec's version is {spec.get('version')}; 0.2 runs all commands in one shell")
    phases = spec.get("phases") or {}
    problems += [f"CodeBuild has no phase {name}" for name in sorted(set(phases) - PHASES)]
    given = SET_BY_CODEBUILD | {each["Name"] for each in project["Environment"]["EnvironmentVariables"]}
    for phase in phases.values():
        for command in phase.get("commands") or ["false # a phase without commands"]:
            # The list of charts may be empty, so the stages test it by other means.
            environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "CHARTS": ""}
            ran = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
            said = ran.stdout + ran.stderr
            _, found, names = said.partition("missing environment variables: ")
            required = set(names.split("\n")[0].split())
            if not found:
                problems.append(f"`{command}` is no stage: {said.strip()}")
            problems += [f"the project does not set {name}" for name in sorted(required - given)]
    return problems


@pytest.mark.parametrize("example", [file.stem for file in EXAMPLES])
def test_a_stage_is_started_and_told_what_it_requires(example: str) -> None:
    found = {name: build_problems(project) for name, project in projects(example).items()}
    assert found
    assert not any(found.values()), found


def project_of_additions(platform: str) -> dict[str, Any]:
    """Return the CodeBuild project that builds what a platform adds to its image. No example has such a stage."""
    (found,) = (
        each
        for name, each in projects(platform).items()
        if name.startswith("image ") and "stage.sh additions" in each["Source"]["BuildSpec"]
    )
    return found


@pytest.mark.parametrize("platform", ["slurm-homes", "neuron"])
def test_the_stage_of_packages_or_a_dockerfile_is_told_what_it_requires(platform: str) -> None:
    assert build_problems(project_of_additions(platform)) == []


def project_of_the_mirror() -> dict[str, Any]:
    return next(each for name, each in projects("platform").items() if name.startswith("mirror "))


def of_a_project(
    change: Callable[[dict[str, Any]], None] = lambda _: None,
    project: Callable[[], dict[str, Any]] = project_of_the_mirror,
) -> Reading:
    """Return a reading of a project, with a change of it."""

    def read(_: Path) -> Sequence[str]:
        chosen = project()
        change(chosen)
        return build_problems(chosen)

    return read


def of_scripts(problems: Callable[[Scripts, Path], Sequence[str]], old: str = "", new: str = "") -> Reading:
    """Return a reading of the scripts, in which one text is replaced by another."""

    def read(directory: Path) -> Sequence[str]:
        changed = {name: text.replace(old, new) if old else text for name, text in SCRIPTS.items()}
        assert not old or changed != SCRIPTS, f"no script has {old}"
        return problems(changed, directory)

    return read


def commands(error: str, old: str, new: str) -> Planted:
    """Return an error that is planted in a command line of the scripts."""

    def problems(scripts: Scripts, _: Path) -> Sequence[str]:
        return command_problems(scripts)

    return Planted(error, of_scripts(problems), of_scripts(problems, old, new))


def shell(error: str, old: str, new: str) -> Planted:
    """Return an error that is planted in the shell of the scripts."""
    return Planted(error, of_scripts(shell_problems), of_scripts(shell_problems, old, new))


def condition_of(directory: Path, environment: Mapping[str, str]) -> str:
    """Return the logical id of the wait condition of a stage that is told this."""
    import aws_cdk as cdk
    from aws_cdk import aws_s3 as s3

    from stacks.constructs.delivery import pipeline
    from stacks.constructs.delivery.build_stage import BuildMachine, BuildStage, StageInputs

    directory.mkdir(exist_ok=True)
    stack = cdk.Stack(cdk.App(outdir=str(directory / "cdk.out")), "stack")
    stage = BuildStage(
        stack,
        "Stage",
        platform="atlas",
        name="cluster",
        inputs=StageInputs(environment),
        permissions=[],
        times=StageTimes(usual=5, limit=10),
        machine=BuildMachine(),
    )
    bundle = Bundle(ROOT / "delivery", "0123456789abcdef")
    bucket = s3.Bucket(stack, "Bucket")
    made = pipeline.Delivery(stack, "Delivery", name="atlas", bundle=bundle, bucket=bucket, steps=[[stage]])
    return str(stack.resolve(made.stage_done["cluster"].logical_id))


def told(directory: Path) -> Sequence[str]:
    """Return a problem if a stage that is told another image has the same wait condition."""
    first = condition_of(directory / "first", {"TRAINWAY_IMAGE": "training:1"})
    second = condition_of(directory / "second", {"TRAINWAY_IMAGE": "training:2"})
    return [] if first != second else ["a stage that is told another image does not run again"]


def told_without_the_environment(directory: Path) -> Sequence[str]:
    """Read the same, with the environment left out of the hash."""
    from stacks.constructs.delivery import pipeline

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "_content", lambda bundle, _: bundle.content)
        return told(directory)


def _forget(variable: str) -> Callable[[dict[str, Any]], None]:
    def change(project: dict[str, Any]) -> None:
        variables = project["Environment"]["EnvironmentVariables"]
        variables[:] = [each for each in variables if each["Name"] != variable]

    return change


def _start(command: str) -> Callable[[dict[str, Any]], None]:
    def change(project: dict[str, Any]) -> None:
        spec = {"version": "0.2", "phases": {"build": {"commands": [command]}}}
        project["Source"] = {"BuildSpec": json.dumps(spec)}

    return change


def _misname_the_phase(project: dict[str, Any]) -> None:
    project["Source"] = {"BuildSpec": project["Source"]["BuildSpec"].replace('"build"', '"builds"')}


SEAMS = (
    Seam(
        artifact="Buildspecs",
        rendered_by="stacks/constructs/delivery/build_stage.py",
        reader="bash and the stages' scripts, which name the variables that they require; the syntax by CodeBuild's "
        "reference",
        instead="CodeBuild runs in AWS only, and no registry has a schema of its buildspecs.",
        planted=(
            Planted("a variable is not set", of_a_project(), of_a_project(_forget("MIRROR_BUCKET_URI"))),
            Planted(
                "the stage of image.packages is not told the tag of its packages",
                of_a_project(project=partial(project_of_additions, "slurm-homes")),
                of_a_project(_forget("PACKAGES_TAG"), partial(project_of_additions, "slurm-homes")),
            ),
            Planted("a stage is misspelled", of_a_project(), of_a_project(_start("bash delivery/stage.sh mirorr"))),
            Planted("a phase is misspelled", of_a_project(), of_a_project(_misname_the_phase)),
        ),
    ),
    Seam(
        artifact="Delivery scripts: shell",
        rendered_by="delivery",
        reader="shellcheck",
        instead="bash reads them in tests/delivery. Their programs are stand-ins there.",
        planted=(
            shell("a variable is not quoted", '"$log"', "$log"),
            shell("a condition has no end", "\nfi\n", "\n"),
        ),
    ),
    Seam(
        artifact="Delivery scripts: command lines",
        rendered_by="delivery",
        reader="botocore's models of the services for `aws`; the flags of the real helm 4.1 and kubectl 1.35",
        instead="The commands work on AWS and on a cluster. The stages install helm 3.20. CodeBuild's image has "
        "kubectl 1.35 and the AWS CLI 2, which is in no registry.",
        planted=(
            commands("an operation does not exist", "aws fsx update-file-system", "aws fsx update-filesystem"),
            commands("a parameter does not exist", "--repository-name", "--repository"),
            commands("a required parameter is left out", 'get-parameter --name "$SUPPLY_PARAMETER"', "get-parameter"),
            commands("a key of a parameter does not exist", "imageTag=$2", "tag=$2"),
            commands("an answer has no such field", "imageDetails[0].imageDigest", "imageDetails[0].digest"),
            commands("a space in a query is lost", '`" "`', "` `"),
            commands("helm has no such flag", "--labels", "--label"),
            commands("kubectl has no such flag", "--field-manager=trainway", "--manager=trainway"),
            commands("kubectl has no such command", "kubectl rollout status", "kubectl rollout state"),
        ),
    ),
    Seam(
        artifact="What a stage is told",
        rendered_by="stacks/constructs/delivery/pipeline.py",
        reader="AWS CDK, which gives the wait condition its logical id",
        instead="CloudFormation creates a new condition for a new logical id, and runs in AWS only.",
        planted=(Planted("the environment is left out of the hash", told, told_without_the_environment),),
    ),
)
