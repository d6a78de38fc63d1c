"""Images in registries, by the API that all of them have.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md and
https://distribution.github.io/distribution/spec/auth/token/ (read 2026-12-01)
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

from trainway.image_doctor.stored_image import LARGEST_DOCUMENT, MANIFESTS
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.image.image_reference import ecr_repository_of, registry_of

_REFERENCE: Final = re.compile(
    r"(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
SECONDS: Final = 60


class RegistryBlobs:
    """An image in a registry. That of ECR is read with the credentials of this shell, another one without any."""

    def __init__(self, image: str) -> None:
        """Raises UsageError for a text that is the name of no image."""
        self.name = image
        self._registry = registry_of(image)
        rest = image.removeprefix(f"{self._registry}/")
        found = _REFERENCE.fullmatch(rest)
        if not found:
            fix = "write it as REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:…, or name a file that is there"
            raise usage_error(f"{image} cannot be read", why="it is no file, and no name of an image", fix=fix)
        is_of_hub = self._registry == "docker.io"
        self._repository = f"library/{found['name']}" if is_of_hub and "/" not in found["name"] else found["name"]
        self._reference = found["digest"] or found["tag"] or "latest"
        host = "registry-1.docker.io" if is_of_hub else self._registry
        scheme = "http" if host.rpartition(":")[0] in _LOOPBACK or host in _LOOPBACK else "https"
        self._scheme, self._address = scheme, f"{scheme}://{host}/v2/{self._repository}"
        self._authorization: str | None = None

    def manifest(self, digest: str | None) -> Mapping[str, Any]:
        """Return the manifest of a digest, or that of the image."""
        with self._open(f"manifests/{digest or self._reference}", accept=", ".join(MANIFESTS)) as stream:
            try:
                found: Mapping[str, Any] = json.loads(stream.read(LARGEST_DOCUMENT))
            except ValueError as error:
                raise self._cannot(f"its manifest is no JSON: {error}") from None
        return found

    @contextmanager
    def open(self, digest: str) -> Iterator[IO[bytes]]:
        """Open a blob."""
        with self._open(f"blobs/{digest}") as stream:
            yield stream

    @contextmanager
    def _open(self, path: str, accept: str = "*/*") -> Iterator[IO[bytes]]:
        try:
            try:
                answer = self._request(path, accept)
            except urllib.error.HTTPError as error:
                if error.code != 401 or self._authorization is not None:
                    raise
                self._authorization = self._log_in(error.headers.get("WWW-Authenticate") or "")
                answer = self._request(path, accept)
        except (urllib.error.URLError, OSError) as error:
            raise self._cannot(str(error)) from None
        with answer:
            yield answer

    def _request(self, path: str, accept: str) -> Any:
        request = urllib.request.Request(f"{self._address}/{path}", headers={"Accept": accept})
        if self._authorization:
            # A registry sends who asks for a blob to a storage, which takes no login of the registry.
            request.add_unredirected_header("Authorization", self._authorization)
        return urllib.request.urlopen(request, timeout=SECONDS)

    def _log_in(self, challenge: str) -> str:
        """Return the value of the header Authorization. Raises UsageError if nobody gets one."""
        if repository := ecr_repository_of(self.name):
            return f"Basic {_token_of_ecr(repository.region)}"
        stated = dict(_CHALLENGE.findall(challenge))
        realm = stated.pop("realm", "")
        if not challenge.lower().startswith("bearer") or not realm.startswith(f"{self._scheme}://"):
            raise self._cannot("the registry requires a login, and offers none to everybody")
        query = urllib.parse.urlencode({"scope": f"repository:{self._repository}:pull", **stated})
        with urllib.request.urlopen(f"{realm}?{query}", timeout=SECONDS) as answer:
            try:
                told = json.loads(answer.read(LARGEST_DOCUMENT))
                return f"Bearer {told.get('token') or told['access_token']}"
            except (ValueError, KeyError, AttributeError):
                raise self._cannot("the registry gave no token to a reader without a login") from None

    def _cannot(self, why: str) -> UsageError:
        fix = (
            f"copy it with a login of yours: `skopeo copy docker://{self.name} oci:image`, or `docker pull` and "
            "`docker save -o image.tar`; then name `image` or `image.tar`"
        )
        return usage_error(f"{self.name} cannot be read", why=why, fix=fix)


def _token_of_ecr(region: str) -> str:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = boto3.client("ecr", region_name=region).get_authorization_token()
    except (BotoCoreError, ClientError) as error:
        fix = "log in to AWS, with the permission ecr:GetAuthorizationToken"
        raise usage_error("ECR gives no login", why=str(error), fix=fix) from None
    return str(answer["authorizationData"][0]["authorizationToken"])
