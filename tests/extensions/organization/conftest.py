"""The delivery scripts in a scratch tree, as the tests of the delivery have them."""

from tests.delivery.conftest import aws, workshop

__all__ = ["aws", "workshop"]
