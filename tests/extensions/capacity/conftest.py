"""An emulated AWS that sells capacity."""

from __future__ import annotations

from tests.price.conftest import aws, emulator

__all__ = ["aws", "emulator"]
