"""What the models of the platform file and of the published facts are made of: a section, and a string that matches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from trainway.spec.booleans import refuse_booleans


def wrong(reason: str, remedy: str) -> PydanticCustomError:
    """Return the error of one value, with its reason and remedy. The loader adds the file, the line, and the key."""
    # Braces would be read as template fields by pydantic.
    return PydanticCustomError("platform", "{reason}", {"reason": reason, "remedy": remedy})


class Section(BaseModel):
    """A part of the file: frozen once read, and a key that it does not know is an error.

    `removed_keys` has the keys that an earlier release knew, each with the reason why it is gone and what to write
    instead. The loader shows both to whoever still has the key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    removed_keys: ClassVar[Mapping[str, tuple[str, str]]] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model, which refuses `true` and `false` in place of numbers."""
        schema: CoreSchema = refuse_booleans(handler(source))
        return schema


@dataclass(frozen=True)
class Matches:
    """Require that a whole string matches a pattern.

    The loader prints the reason and the remedy, and the schema has the pattern for editors.
    """

    pattern: str
    reason: str
    remedy: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the value once it is known to be a string."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema with the pattern anchored: JSON Schema searches for a pattern anywhere in a string."""
        return {**handler(schema), "pattern": f"^({self.pattern})$"}

    def _check(self, value: str) -> str:
        if not re.fullmatch(self.pattern, value, re.ASCII):
            raise wrong(self.reason, self.remedy)
        return value
