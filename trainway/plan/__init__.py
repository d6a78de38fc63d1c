"""What a platform will have and cost, before anything is deployed."""

from trainway.plan.document import plan_document
from trainway.plan.text import plan_text

__all__ = ["plan_document", "plan_text"]
