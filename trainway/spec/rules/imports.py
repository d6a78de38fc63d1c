"""`import_from`: prefixes of S3 that the file system shows below /import."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainway.spec.derived.buckets import DATA, bucket_identity
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.storage import Lustre

_ACCOUNT = "ACCOUNT"


@rule
def what_is_mirrored_is_not_imported(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No import overlaps a prefix of the data bucket that is mirrored: FSx links an object to one directory.

    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html (read 2026-11-21)
    """
    bucket = _bucket(platform)
    for key, lustre in platform.storage.lustre_by_key.items():
        for index, location in enumerate(lustre.import_from):
            name, _, prefix = location.removeprefix("s3://").partition("/")
            if bucket.fullmatch(name) and (mirrored := _overlapped(prefix, lustre)):
                reason = f"the file system mirrors the prefix {mirrored} of this bucket, and FSx links an object once"
                fix = f"read it below /fsx/{mirrored}, or write `mirror: false`"
                yield ("storage", key, "import_from", index), reason, fix


def _bucket(platform: Platform) -> re.Pattern[str]:
    """Return the name of the data bucket as a pattern. The account is not known."""
    name = bucket_identity(platform, DATA, _ACCOUNT).name
    return re.compile(re.escape(name).replace(_ACCOUNT, r"\d{12}"))


def _overlapped(prefix: str, lustre: Lustre) -> str | None:
    """Return the mirrored prefix that a prefix contains or is in, or None."""
    ours = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    return next((name for name in lustre.mirrored if f"{name}/".startswith(ours) or ours.startswith(f"{name}/")), None)
