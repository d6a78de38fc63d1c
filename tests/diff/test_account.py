"""Without credentials, the diff ends before it synthesizes anything, and says what to do."""

from __future__ import annotations

import pytest

from tests.synthesis import ROOT
from trainway.diff import look
from trainway.spec.errors import UsageError


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without any credentials, in which a synthesis fails the test."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def must_not(*_arguments: object, **_options: object) -> None:
        raise AssertionError("it synthesized")

    monkeypatch.setattr(look, "synthesize", must_not)


@pytest.mark.usefixtures("nobody")
def test_without_credentials_it_says_so_before_the_synthesis() -> None:
    with pytest.raises(UsageError, match="this shell has no AWS credentials") as raised:
        look.look(ROOT / "platform.yaml")
    assert "aws sso login" in str(raised.value)


@pytest.mark.usefixtures("nobody")
def test_credentials_that_nobody_answers_to_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(UsageError, match="Could not connect"):
        look.look(ROOT / "platform.yaml")
