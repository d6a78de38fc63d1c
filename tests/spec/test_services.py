"""Facts about services, each with its page."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from trainway.spec.facts.services import ServiceFacts, service_facts


def test_every_section_names_its_pages() -> None:
    facts = service_facts()
    for section in (facts.lustre, facts.openzfs, facts.s3, facts.vpc, facts.eks):
        pages = [source.url for source in section.sources]
        assert all(page.startswith(("https://docs.aws.amazon.com/", "https://docs.amazonaws.cn/")) for page in pages)


def test_facts_without_a_page_are_refused() -> None:
    document = service_facts().model_dump()
    document["vpc"]["sources"] = ()
    with pytest.raises(ValidationError, match="sources"):
        ServiceFacts.model_validate(document)
