"""Facts about services, each with its page."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from trainway.spec.services import ServiceFacts, service_facts


def test_every_section_names_its_pages() -> None:
    facts = service_facts()
    for section in (facts.lustre, facts.vpc, facts.eks):
        assert all(source.url.startswith("https://docs.aws.amazon.com/") for source in section.sources)


def test_facts_without_a_page_are_refused() -> None:
    document = service_facts().model_dump()
    document["vpc"]["sources"] = ()
    with pytest.raises(ValidationError, match="sources"):
        ServiceFacts.model_validate(document)
