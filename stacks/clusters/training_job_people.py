"""Permissions of a person's role for SageMaker training jobs."""

from __future__ import annotations

from stacks.clusters.training_jobs import TRAINING_JOBS
from stacks.constructs.iam.permissions import Permission, regional_arn
from trainway.spec.handoff import TrainingJobs
from trainway.spec.jobs.training_job_tags import PLATFORM_TAG, TEAM_TAG
from trainway.spec.teams.personas import Persona


def training_job_permissions(
    persona: Persona, platform: str, roles: TrainingJobs, directory: str | None = None
) -> list[Permission]:
    """Return the permissions that `trainway` needs for a persona to launch, watch, and stop training jobs.

    Everybody may watch. Viewers cannot launch. A team's members launch and stop the jobs that have the team's tag, and
    administrators those of the whole platform. Members pass the role of their team if teams have roles of their own. A
    launch describes the job by name before the job exists, so no tag can limit DescribeTrainingJob. A shell in a
    container is not included: docs/launch-sagemaker.md. With `directory`, the jobs mount only this directory of a file
    system.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-pass-role
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsagemaker.html (read 2026-11-22)
    """
    jobs, named = (regional_arn("sagemaker", "training-job/*"),), "Training jobs are named after their runs."
    group = regional_arn("logs", f"log-group:{TRAINING_JOBS}")
    watch = [
        Permission(("sagemaker:DescribeTrainingJob",), jobs, because=named),
        Permission(("logs:DescribeLogStreams", "logs:GetLogEvents"), (group, f"{group}:*"), because=named),
    ]
    if not persona.moves_data:
        return watch
    of_team = roles.team_role_arns.get(persona.team) if persona.team else None
    passed = (of_team,) if of_team else (roles.role_arn, *roles.team_role_arns.values())
    tags = {PLATFORM_TAG: platform, **({TEAM_TAG: persona.team} if persona.team else {})}
    requested = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    theirs = {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
    created = {"StringEquals": requested}
    if directory:
        # Most jobs mount no file system.
        created["StringEqualsIfExists"] = {"sagemaker:FileSystemDirectoryPath": directory}
    while_created = {**requested, "sagemaker:TaggingAction": "CreateTrainingJob"}
    to_sagemaker = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    return [
        *watch,
        Permission(("sagemaker:CreateTrainingJob",), jobs, because=named, conditions=created),
        Permission(("sagemaker:AddTags",), jobs, because=named, conditions={"StringEquals": while_created}),
        Permission(("sagemaker:StopTrainingJob",), jobs, because=named, conditions={"StringEquals": theirs}),
        Permission(("iam:PassRole",), passed, conditions={"StringEquals": to_sagemaker}),
        Permission(("ec2:DescribeSubnets",), ("*",), because="EC2's Describe has no resource type."),
        Permission(
            ("sagemaker:DescribeTrainingPlan",),
            (regional_arn("sagemaker", "training-plan/*"),),
            because="A launch looks for the zone of the plan that it names.",
        ),
    ]
