"""The target `sagemaker`: a training job in the platform's network, without the platform's cluster."""

from __future__ import annotations

from trainway.launch.program.request import Request
from trainway.launch.sagemaker.evidence import evidence
from trainway.launch.sagemaker.logs import logs
from trainway.launch.sagemaker.options import SageMakerOptions
from trainway.launch.sagemaker.render import as_json, render_request
from trainway.launch.sagemaker.submit import find, submit
from trainway.launch.sagemaker.watch import shell, state, stop
from trainway.launch.starting.prepare import requests_beside_platform
from trainway.launch.target.protocol import Handle, Target
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.sections.orchestrator import Orchestrator


def _render(request: Request, catalogue: Catalogue, options: SageMakerOptions) -> str:
    return as_json(render_request(request, catalogue, options))


def _on_platform(hand_off: HandOff, team: str | None) -> Handle:
    del team
    return {"region": hand_off.region}


TARGET = Target(
    name="sagemaker",
    heading="On SageMaker",
    options=SageMakerOptions,
    orchestrators=tuple(Orchestrator),
    on_nodes_of_platform=False,
    handle={
        # A run that is resumed has another training job, whose name _free_name of submit.py chooses.
        "name": r"(?P<run>[a-z0-9](-*[a-z0-9])*)(-start-[0-9]{1,9})?",
        "region": r"[a-z]{2,}(-[a-z0-9]+)+",
    },
    on_platform=_on_platform,
    decided=("region",),
    prepare=requests_beside_platform,
    render=_render,
    submit=submit,
    find=find,
    state=state,
    logs=logs,
    stop=stop,
    shell=shell,
    evidence=evidence,
)
