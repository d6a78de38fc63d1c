"""The sections `optimizer` and `schedule` of the job file."""

from typing import Annotated, Literal, assert_never

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from training.config.section import Section


class Optimizer(Section):
    """AdamW (Loshchilov & Hutter, arXiv 1711.05101) or Muon. The betas and the decay are those of arXiv 2302.13971."""

    name: Literal["adamw", "adamw-8bit", "muon"] = Field(
        "adamw",
        description="adamw-8bit keeps the moments of large matrices in 8 bits (torchao). muon orthogonalizes the "
        "updates of a layer's matrices and uses AdamW for all other parameters, with AdamW's learning rate and "
        "weight decay for both.",
    )
    learning_rate: float = Field(3e-4, gt=0, description="Peak learning rate.")
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.95), description="Decay rates of the first and second moment."
    )
    epsilon: float = Field(1e-8, gt=0, description="Added to the denominator of the update.")
    weight_decay: float = Field(
        0.1, ge=0, description="Decoupled weight decay of matrices. Norms and embeddings have none."
    )
    momentum: float = Field(0.95, ge=0, lt=1, description="Decay rate of Muon's momentum.")
    state: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="Type of AdamW's moments between steps. bf16 halves their memory, to 4 bytes per parameter. The "
        "step is computed in fp32 in both cases.",
    )

    @property
    def state_bytes(self) -> int:
        """Return the bytes per parameter of a matrix that the optimizer keeps between steps.

        AdamW keeps two moments, and Muon keeps one momentum. 8-bit AdamW keeps norms and small matrices in fp32.
        """
        match self.name:
            case "adamw":
                return 8 if self.state == "fp32" else 4
            case "adamw-8bit":
                return 2
            case "muon":
                return 4
            case other:
                assert_never(other)

    @field_validator("state")
    @classmethod
    def _only_of_adamw(cls, state: str, info: ValidationInfo) -> str:
        if state == "fp32" or info.data.get("name") in (None, "adamw"):
            return state
        raise PydanticCustomError(
            "optimizer_state",
            "state is {state}, but optimizer.name is {name}, which keeps its state in a type of its own",
            {"state": state, "name": info.data["name"], "remedy": "leave state out, or set optimizer.name to adamw"},
        )


class Schedule(Section):
    """Linear warm-up, then a decay to a floor at the last step. cosine, or a plateau with a short decay (WSD)."""

    shape: Literal["cosine", "wsd"] = Field(
        "cosine",
        description="cosine decays from the end of the warm-up. wsd stays at the peak until the last decay_steps.",
    )
    warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises to its peak.")
    decay_steps: int | None = Field(
        None, ge=1, description="Number of steps at the end over which wsd decays. Default: a fifth of the job's steps."
    )
    minimum_ratio: float = Field(0.1, ge=0, le=1, description="Learning rate of the last step divided by the peak.")

    @field_validator("decay_steps")
    @classmethod
    def _only_of_wsd(cls, decay_steps: int | None, info: ValidationInfo) -> int | None:
        if decay_steps is None or info.data.get("shape") == "wsd":
            return decay_steps
        raise PydanticCustomError(
            "decay",
            "a cosine has no decay_steps: it falls from the end of the warm-up on",
            {"remedy": "leave decay_steps out, or set schedule.shape to wsd"},
        )
