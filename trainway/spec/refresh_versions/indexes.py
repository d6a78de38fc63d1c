"""What publishers say of their newest releases: one reader for each index.

Each reader takes `ask`, which returns the body of an address, and raises UsageError if the index does not answer or
says something else than expected.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from trainway.spec.errors import usage_error

Fetch = Callable[[str], bytes]

PYPI = "https://pypi.org/pypi"
GITHUB = "https://api.github.com/repos"
EFA_CHANGELOG = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.md"
EFA_INSTALLER = "https://efa-installer.amazonaws.com/aws-efa-installer-{}.tar.gz"
_PLATFORM = "manylinux_2_28_x86_64"


class Wheel(NamedTuple):
    """The newest release of PyTorch: its wheel for Linux, what it requires, and the day of its upload."""

    version: str
    file: str
    sha256: str
    cuda_toolkit: str
    nccl: str
    day: date


class Installer(NamedTuple):
    """A release of the EFA installer, as AWS's changelog describes it."""

    version: str
    libfabric: str
    aws_ofi_nccl: str


class Notes(NamedTuple):
    """What the release notes of aws-ofi-nccl promise. None and empty where they are silent."""

    tested_with_libfabric: tuple[str, ...]
    libfabric_from: str | None
    tested_with_nccl: tuple[str, ...]
    nccl_from: str | None


def asker(instead: Mapping[str, str]) -> Fetch:
    """Return a function that gets an address. `instead` has mirrors by the hosts that they take the place of."""
    import urllib3

    settings: dict[str, Any] = {"retries": 3, "timeout": urllib3.Timeout(connect=10, read=300)}
    proxy = getproxies().get("https")
    pool = urllib3.proxy_from_url(proxy, **settings) if proxy else urllib3.PoolManager(**settings)

    def ask(address: str) -> bytes:
        parts = urlsplit(address)
        base = instead.get(parts.netloc)
        url = f"{base.rstrip('/')}{parts.path}" if base else address
        fix = f"ask again, or name a mirror: --at {parts.netloc}=ADDRESS"
        try:
            answer = pool.request("GET", url, headers={"User-Agent": "trainway-refresh-versions"})
        except urllib3.exceptions.HTTPError as error:
            raise usage_error(f"{url} could not be read", why=str(error), fix=fix) from None
        if answer.status != 200:
            raise usage_error(f"{url} could not be read", why=f"its server answered {answer.status}", fix=fix)
        return answer.data

    return ask


def newest_pytorch(ask: Fetch, python: str) -> Wheel:
    """Return the newest release of PyTorch, from the index's JSON.

    https://docs.pypi.org/api/json (read 2026-12-01)
    """
    address = f"{PYPI}/torch/json"
    answer = _parsed(ask, address)
    tag = "cp" + python.replace(".", "")
    try:
        version, required = answer["info"]["version"], " ".join(answer["info"]["requires_dist"])
        [wheel] = [each for each in answer["urls"] if each["filename"].endswith(f"-{tag}-{tag}-{_PLATFORM}.whl")]
        uploaded = datetime.fromisoformat(wheel["upload_time_iso_8601"]).date()
        toolkit, nccl = (
            _one(rf"{name}==([\d.]+)", required, address) for name in (r"cuda-toolkit\S*", r"nvidia-nccl-cu\d+")
        )
        return Wheel(version, wheel["filename"], wheel["digests"]["sha256"], toolkit, nccl, uploaded)
    except (KeyError, TypeError, ValueError):
        raise _unexpected(address, f"one wheel of torch for {tag} and {_PLATFORM}") from None


def nccl_sha256(ask: Fetch, version: str) -> str | None:
    """Return the checksum of the wheel of an NCCL for CUDA 13 on x86-64, or None if the index has none."""
    address = f"{PYPI}/nvidia-nccl-cu13/json"
    try:
        files = _parsed(ask, address)["releases"].get(version, [])
        found = [each["digests"]["sha256"] for each in files if each["filename"].endswith("x86_64.whl")]
    except (KeyError, TypeError, AttributeError):
        raise _unexpected(address, "the releases of nvidia-nccl-cu13") from None
    return str(found[0]) if found else None


def newest_efa_installer(ask: Fetch) -> Installer:
    """Return the first row of AWS's changelog of the installer that names libfabric and the plugin."""
    for line in ask(EFA_CHANGELOG).decode().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        libfabric = re.search(r"libfabric (\d[\w.]*)", line)
        plugin = re.search(r"(?:OFI NCCL Plugin|libnccl-ofi) (\d[\d.]*)", line)
        if len(cells) > 3 and re.fullmatch(r"\d+(\.\d+)+", cells[1]) and libfabric and plugin:
            return Installer(cells[1], libfabric[1], plugin[1])
    raise _unexpected(EFA_CHANGELOG, "a row with a version, a libfabric, and an OFI NCCL plugin")


def plugin_notes(ask: Fetch, version: str) -> Notes:
    """Return what the release notes of an aws-ofi-nccl promise, in the words of those of 1.19.2 to 1.21.1.

    https://github.com/aws/aws-ofi-nccl/releases/tag/v1.21.1 (read 2026-12-01)
    """
    address = f"{GITHUB}/aws/aws-ofi-nccl/releases/tags/v{version}"
    body = str(_parsed(ask, address).get("body", ""))
    tested = re.search(r"tested with (NCCL v.*?) while maintaining", body, re.DOTALL)
    oldest = re.search(r"NCCL v([\d.]+) and later", body)
    libfabric = re.search(r"tested with Libfabric v([\w.]*\w)", body)
    of_aws = re.search(r"AWS-specific support requires at least Libfabric v([\d.]*\d)", body)
    return Notes(
        tested_with_libfabric=(libfabric[1],) if libfabric else (),
        libfabric_from=of_aws[1] if of_aws else None,
        tested_with_nccl=tuple(re.findall(r"NCCL v(\d+\.\d+\.\d+)", tested[1])) if tested else (),
        nccl_from=oldest[1] if oldest else None,
    )


def newest_nccl_tests(ask: Fetch) -> str:
    """Return the newest version among the tags of NCCL's tests.

    https://docs.github.com/en/rest/repos/repos#list-repository-tags (read 2026-12-01)
    """
    address = f"{GITHUB}/NVIDIA/nccl-tests/tags"
    try:
        tags = [each["name"] for each in _parsed(ask, address)]
    except (KeyError, TypeError):
        raise _unexpected(address, "the tags of nccl-tests") from None
    found = [match[1] for tag in tags if (match := re.fullmatch(r"v(\d+\.\d+\.\d+)", tag))]
    if not found:
        raise _unexpected(address, "a tag such as v2.17.6")
    return max(found, key=lambda version: [int(part) for part in version.split(".")])


def sha256_of(ask: Fetch, address: str) -> str:
    """Return the checksum of what a publisher serves."""
    return hashlib.sha256(ask(address)).hexdigest()


def _parsed(ask: Fetch, address: str) -> Any:
    try:
        return json.loads(ask(address))
    except ValueError:
        raise _unexpected(address, "JSON") from None


def _one(pattern: str, text: str, address: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise _unexpected(address, f"a requirement {pattern}")
    return match[1]


def _unexpected(address: str, what: str) -> Exception:
    fix = "correct the reader in trainway/spec/refresh_versions/indexes.py"
    return usage_error(f"{address} has another form", why=f"it does not have {what}", fix=fix)
