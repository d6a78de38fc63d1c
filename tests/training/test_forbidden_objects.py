"""S3 answers 403 for an object that is absent to a role that can only list its own prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from botocore.stub import Stubber

from training.errors import StorageDenied
from training.hosts import location_files

LOCATION = "s3://bucket/checkpoints/research/a/lease.json"
KEY = LOCATION.removeprefix("s3://bucket/")
READERS: dict[str, tuple[str, str, Callable[[], object]]] = {
    "read": ("get_object", "AccessDenied", lambda: location_files.read(LOCATION)),
    "read_with_etag": ("get_object", "AccessDenied", lambda: location_files.read_with_etag(LOCATION)),
    # The answer to HEAD has no body, and with it no code but its status.
    "holds": ("head_object", "403", lambda: location_files.holds(LOCATION, 1, "00" * 32)),
}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    location_files.s3_client.cache_clear()
    with Stubber(location_files.s3_client()) as stub:
        yield stub
    location_files.s3_client.cache_clear()


@pytest.mark.parametrize("reader", READERS)
def test_an_object_that_is_not_listed_is_absent(reader: str, s3: Stubber) -> None:
    request, code, ask = READERS[reader]
    s3.add_client_error(request, code, http_status_code=403)
    # Another object, whose name begins with that of the one.
    found = {"Contents": [{"Key": f"{KEY}.old"}]}
    s3.add_response("list_objects_v2", found, {"Bucket": "bucket", "Prefix": KEY, "MaxKeys": 1})
    assert not ask()
    s3.assert_no_pending_responses()


@pytest.mark.parametrize("reader", READERS)
def test_an_object_that_is_listed_is_denied(reader: str, s3: Stubber) -> None:
    request, code, ask = READERS[reader]
    s3.add_client_error(request, code, http_status_code=403)
    s3.add_response("list_objects_v2", {"Contents": [{"Key": KEY}]})
    with pytest.raises(StorageDenied, match="access is denied"):
        ask()


@pytest.mark.parametrize("reader", READERS)
def test_an_object_of_another_team_is_denied_and_not_absent(reader: str, s3: Stubber) -> None:
    """Otherwise, a run would begin anew where it cannot read its checkpoints."""
    request, code, ask = READERS[reader]
    s3.add_client_error(request, code, http_status_code=403)
    s3.add_client_error("list_objects_v2", "AccessDenied", http_status_code=403)
    with pytest.raises(StorageDenied, match="access is denied"):
        ask()
