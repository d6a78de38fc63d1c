"""Edits of who may do what on a deployed platform, and of its teams and jobs."""

from __future__ import annotations

from tests.changes.edit import (
    KEY,
    KUBERNETES,
    ROLE,
    SECRET,
    SECRET_2,
    SLURM_USERS,
    Edit,
    slurm_prefixes,
    team_directories,
    team_prefixes,
    with_keys,
)
from tests.changes.edits.shared import LINKS, NO_NODES_ELSEWHERE, ONLY_THE_CLUSTER

# On HyperPod administrators may also repair nodes.
PEOPLE = r"cluster/(Kubernetes(AdminEntry|AdminRole|Principal)|NodeRepairs).*"
# The runbook of events finds each team's runs.
ONLY_ACCESS = (
    "live-observability\n  changed in place  1 × SSM::Document",
    f"{NO_NODES_ELSEWHERE}live-image, live-mirror",
)
# What jobs notice.
BLUE_LEAVES = (
    "note: blue leaves the platform: its queue takes no more jobs, and what waits there waits for good. Data stays. "
    "Let the jobs end first, or stop them: `trainway status --team blue` lists them.",
    "note: running jobs of blue lose their role, and with it the bucket, secrets, and images: they fail when they read "
    "or save there.",
)

OF_PEOPLE: dict[str, Edit] = {
    "a team of Slurm users": Edit(
        (
            with_keys(slurm=SLURM_USERS, teams=[{"name": "red", "users": ["ana"]}]),
            with_keys(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
        ),
        on=("hyperpod-slurm",),
    ),
    "another team": Edit(
        (lambda document: document["teams"].append({"name": "green"}),),
        "cluster/KubernetesJobInGreen.*",
        says=ONLY_ACCESS,
        on=("eks",),
    ),
    "a team fewer, one that does not borrow, another one, and none": Edit(
        (
            with_keys(teams=[{"name": "red"}]),
            with_keys(teams=[{"name": "red", "borrow": False}]),
            with_keys(teams=[{"name": "blue"}]),
            with_keys(teams=[]),
        ),
        "cluster/.*|registry/.*",
        says=(*ONLY_ACCESS, *BLUE_LEAVES),
        on=("eks",),
    ),
    "a team": Edit(
        (
            with_keys(teams=[{"name": "red"}]),
            with_keys(teams=[{"name": "red", "borrow": False}]),
            with_keys(teams=[{"name": "blue"}]),
        ),
        "cluster/.*|registry/.*",
        on=("hyperpod-eks",),
    ),
    "prefixes of teams": Edit(
        (
            with_keys(teams=[{"name": "red"}]),
            team_prefixes(),
            team_prefixes(shared=["corpus/web"], data=["checkpoints/llama"]),
            team_prefixes(shared=["corpus/code"], data=["checkpoints/other"]),
            team_prefixes(),
            with_keys(teams=[{"name": "red"}]),
        ),
        "cluster/.*|registry/.*",
        on=KUBERNETES,
    ),
    "prefixes of teams on Slurm, of which one gets another name": Edit(
        (
            slurm_prefixes("red"),
            slurm_prefixes("red", "blue"),
            slurm_prefixes("green", "blue"),
            with_keys(slurm=SLURM_USERS, teams=[{"name": "blue", "users": ["ana"]}]),
        ),
        "cluster/SlurmJobRoleOf(Red|Blue|Green)[A-Z0-9].*",
        on=("hyperpod-slurm",),
    ),
    "directories of teams": Edit(
        (team_directories(False), team_directories(True), team_directories(False)),
        "(cluster|registry)/.*|file-system/Lustre(Corpus|Checkpoints|Runs)Repository.*|observability/LustreExportBehind.*",
        gone=LINKS,
        on=KUBERNETES,
    ),
    "no walls around jobs": Edit((with_keys(slurm={"job_walls": False}),), on=("hyperpod-slurm",)),
    "a shared /tmp": Edit((with_keys(slurm={"private_tmp": False}),), on=("hyperpod-slurm",)),
    "a viewer": Edit((with_keys("kubernetes", viewers=[ROLE]),), "cluster/.*", on=KUBERNETES),
    # The deploy also builds the image again, with layers that SageMaker supports.
    "training jobs": Edit(
        (with_keys("iam", training_jobs=True),),
        "cluster/TrainingJob.*",
        # The rule for scans of the image names its tag.
        says_on={
            "eks": (
                "live-image",
                "live-observability\n  changed in place  1 × Events::Rule",
                f"{NO_NODES_ELSEWHERE}live-mirror",
            )
        },
    ),
    "roles of people": Edit(
        (with_keys("iam", persona_roles=True),), PEOPLE, gone=("KubernetesPrincipalb74ee6ad",), on=KUBERNETES
    ),
    "secrets of jobs: one, another with a key, and none": Edit(
        (
            with_keys(secrets=[{"secret": SECRET}]),
            with_keys(secrets=[{"secret": SECRET}, {"secret": SECRET_2, "key": KEY}]),
        ),
        says_on={
            "eks": (
                "  changed in place  1 × IAM::Policy, 1 × SSM::Parameter",
                ONLY_THE_CLUSTER,
                "2 changed in place.",
            )
        },
    ),
    "the endpoint of the API": Edit(
        (
            with_keys("kubernetes", endpoint={"public_to": ["203.0.113.0/24"]}),
            with_keys("kubernetes", endpoint={"public_to": ["198.51.100.0/24"]}),
        ),
        "cluster/.*",
        on=KUBERNETES,
    ),
}
