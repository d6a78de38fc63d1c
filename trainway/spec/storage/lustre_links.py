"""The directories of a Lustre file system that are linked to S3."""

from __future__ import annotations

from urllib.parse import urlsplit

from trainway.spec.handoff import Association
from trainway.spec.sections.storage import Lustre


def lustre_links(lustre: Lustre, bucket: str) -> tuple[Association, ...]:
    """Return all links of a file system: those that it has already, those to the data bucket, and its imports."""
    there = lustre.existing.associations if lustre.existing else {}
    return (
        *(Association(path=path, s3=uri.rstrip("/")) for path, uri in there.items()),
        *(mirror(bucket, prefix) for prefix in new_mirrors(lustre)),
        *(link_of_import(uri) for uri in lustre.import_from),
    )


def new_mirrors(lustre: Lustre) -> tuple[str, ...]:
    """Return the prefixes of the data bucket that the platform links. An existing file system may have links to some.

    A link's prefix is in no other link of its own file system:
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-linked-dra.html
    Several file systems can be linked to one bucket: https://aws.amazon.com/fsx/lustre/faqs/ (both read 2026-11-23)
    """
    there = lustre.existing.associations if lustre.existing else {}
    return tuple(prefix for prefix in lustre.mirrored if f"/{prefix}" not in there)


def mirror(bucket: str, prefix: str) -> Association:
    """Return the link of a prefix of the data bucket, which goes both ways."""
    return Association(path=f"/{prefix}", s3=f"s3://{bucket}/{prefix}")


def link_of_import(uri: str) -> Association:
    """Return the link of another bucket, below /import of the file system."""
    parts = urlsplit(uri)
    location = f"{parts.netloc}{parts.path}".rstrip("/")
    return Association(path=f"/import/{location}", s3=f"s3://{location}")
