"""The section `trackers` of the job file: the services that get the metrics of a run."""

import hashlib
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from training.config.section import Section

# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html (read 2026-11-23). After `#` is a
# key of its JSON. An access token of Hugging Face or GitHub has an underscore after two or three letters.
SECRET_NAME = re.compile(r"(?!hf_|gh[pousr]_|sk-)[A-Za-z0-9/_+=.@:-]{1,512}(#[^#=]+)?")
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AIMlflowConfig.html (read 2026-11-27)
SAGEMAKER_MLFLOW = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:mlflow-(app|tracking-server)/.+")
# The key of Comet is 40 characters, and W&B's is 40 or, behind a prefix, more. A name of a secret is rarely all of it.
_API_KEY = re.compile(r"([0-9a-f]{40}|[A-Za-z0-9]{40}|wandb_v\d_.*|local-[0-9a-f]{40})")
# https://docs.wandb.ai/ref/python/sdk/functions/init (read 2026-11-27): an ID has at most 64 characters.
_LONGEST_WANDB_ID = 64


def _wrong(kind: str, sentence: str, remedy: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{sentence}", {"sentence": sentence, "remedy": remedy})


def _secret_name(name: str) -> str:
    if SECRET_NAME.fullmatch(name) and not _API_KEY.fullmatch(name):
        return name
    remedy = "write the name of a secret, for example wandb, and never its value"
    raise _wrong("secret", "it is no name of a secret of AWS Secrets Manager", remedy)


def _tracking_uri(uri: str) -> str:
    if re.search(r"//[^/]*@", uri):
        raise _wrong(
            "login", "everybody who sees the run sees the login in it", "leave the login out, and set `secret`"
        )
    if SAGEMAKER_MLFLOW.fullmatch(uri) or re.fullmatch(r"(https?|sqlite)://[^\s]+", uri):
        return uri
    remedy = "write the address of the server, for example https://mlflow.example.com, or the ARN of an MLflow App"
    raise _wrong("tracking_uri", f"{uri!r} is no tracking URI that a node can use", remedy)


def _address(address: str) -> str:
    if re.fullmatch(r"https?://[^\s@]+", address):
        return address
    raise _wrong("address", f"{address!r} is no address of a server", "write it as in https://wandb.example.com")


SecretName = Annotated[str, AfterValidator(_secret_name)]
TrackingUri = Annotated[str, AfterValidator(_tracking_uri)]
ServerAddress = Annotated[str, AfterValidator(_address)]


class Mlflow(Section):
    """`trackers.mlflow`: a tracking server of MLflow, or a managed one of SageMaker."""

    tracking_uri: TrackingUri | None = Field(
        None,
        description="Address of the tracking server, for example https://mlflow.example.com, or the ARN of an MLflow "
        "App or tracking server of SageMaker. Default: `observability.mlflow` of the platform file.",
    )
    experiment: str | None = Field(None, min_length=1, description="Name of the experiment. Default: the job's name.")
    secret: SecretName | None = Field(
        None, description="Name of the secret in AWS Secrets Manager with the token of the server. Default: no token."
    )


class WeightsAndBiases(Section):
    """`trackers.wandb`: a run in Weights & Biases."""

    project: str | None = Field(None, min_length=1, description="Name of the project. Default: the job's name.")
    entity: str | None = Field(
        None, min_length=1, description="User or team that has the project. Default: that of the key."
    )
    mode: Literal["online", "offline"] = Field(
        "online",
        description="offline: write to `trackers/wandb` in the directory of the run, from where `wandb sync` uploads.",
    )
    base_url: ServerAddress | None = Field(
        None, description="Address of a server of yours. Default: https://api.wandb.ai."
    )
    secret: SecretName | None = Field(
        None, description="Name of the secret in AWS Secrets Manager with the API key. Default: WANDB_API_KEY."
    )


class Comet(Section):
    """`trackers.comet`: an experiment in Comet."""

    project: str | None = Field(None, min_length=1, description="Name of the project. Default: the job's name.")
    workspace: str | None = Field(None, min_length=1, description="Workspace of the project. Default: that of the key.")
    mode: Literal["online", "offline"] = Field(
        "online",
        description="offline: write to `trackers/comet` in the directory of the run, and upload with `comet upload`.",
    )
    base_url: ServerAddress | None = Field(
        None, description="Address of a server of yours. Default: https://www.comet.com."
    )
    secret: SecretName | None = Field(
        None, description="Name of the secret in AWS Secrets Manager with the API key. Default: COMET_API_KEY."
    )


class Trackers(Section):
    """`trackers`: the services that get the metrics of a run, in addition to metrics.jsonl and TensorBoard."""

    mlflow: Mlflow | None = Field(None, description="A tracking server of MLflow.")
    wandb: WeightsAndBiases | None = Field(None, description="Weights & Biases.")
    comet: Comet | None = Field(None, description="Comet.")

    @property
    def named(self) -> dict[str, Mlflow | WeightsAndBiases | Comet]:
        """Return the trackers that the section names, by their keys."""
        found = {"mlflow": self.mlflow, "wandb": self.wandb, "comet": self.comet}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def packages(self) -> dict[str, tuple[str, ...]]:
        """Return the packages of each tracker. `|` separates alternatives, of which one is enough."""
        found: dict[str, tuple[str, ...]] = {
            "mlflow": ("mlflow-skinny|mlflow",),
            "wandb": ("wandb",),
            "comet": ("comet-ml",),
        }
        if self.mlflow and (self.mlflow.tracking_uri is None or SAGEMAKER_MLFLOW.fullmatch(self.mlflow.tracking_uri)):
            # https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-track-experiments.html (read 2026-11-27)
            found["mlflow"] += ("sagemaker-mlflow",)
        return {name: found[name] for name in self.named}

    @property
    def secrets_by_tracker(self) -> dict[str, dict[str, str]]:
        """Return, for each tracker, the environment variable of its credential and the secret with the value."""
        variables = {"mlflow": "MLFLOW_TRACKING_TOKEN", "wandb": "WANDB_API_KEY", "comet": "COMET_API_KEY"}
        return {name: {variables[name]: each.secret} for name, each in self.named.items() if each.secret}

    @property
    def secrets(self) -> dict[str, str]:
        """Return the environment variables of all credentials, and the secrets with their values."""
        return {variable: name for each in self.secrets_by_tracker.values() for variable, name in each.items()}

    def environment(self, job: str, run: str) -> dict[str, str]:
        """Return the environment variables by which the trackers' own packages find the run `run` of a job.

        A run that resumes has the same name, and with it the same run of W&B and the same experiment of Comet. MLflow's
        server chooses the IDs of its runs.
        https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html,
        https://docs.wandb.ai/models/track/environment-variables, and
        https://www.comet.com/docs/v2/guides/experiment-management/configure-sdk/ (read 2026-11-27)
        """
        found: dict[str, str | None] = {}
        if self.mlflow:
            found |= {
                "MLFLOW_TRACKING_URI": self.mlflow.tracking_uri,
                "MLFLOW_EXPERIMENT_NAME": self.mlflow.experiment or job,
            }
        if self.wandb:
            found |= {
                "WANDB_PROJECT": self.wandb.project or job,
                "WANDB_ENTITY": self.wandb.entity,
                "WANDB_MODE": self.wandb.mode,
                "WANDB_BASE_URL": self.wandb.base_url,
                "WANDB_NAME": run,
                "WANDB_RUN_ID": run[-_LONGEST_WANDB_ID:],
                "WANDB_RESUME": "allow",
            }
        if self.comet:
            found |= {
                "COMET_PROJECT_NAME": self.comet.project or job,
                "COMET_WORKSPACE": self.comet.workspace,
                "COMET_URL_OVERRIDE": self.comet.base_url and f"{self.comet.base_url.rstrip('/')}/clientlib/",
                # 32 to 50 letters and digits: https://www.comet.com/docs/v2/api-and-sdk/python-sdk/reference/start/
                "COMET_EXPERIMENT_KEY": hashlib.sha256(f"{job}/{run}".encode()).hexdigest()[:40],
                "COMET_START_MODE": "get_or_create",
                "COMET_START_ONLINE": "0" if self.comet.mode == "offline" else None,
            }
        return {name: value for name, value in found.items() if value}
