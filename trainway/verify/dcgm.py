"""Read the JSON of `dcgmi diag --json`: which GPU failed which test, and why.

It has no published schema. DCGM 4 prints a document of test_categories, which have tests, which have results, each with
an entity_group, an entity_id, a status, and warnings. DCGM 3 called the document "DCGM GPU Diagnostic", and the entity
gpu_ids or gpu_id. https://github.com/NVIDIA/DCGM/blob/master/testing/python3/dcgm_diag_schema.json,
nvvs/include/NvvsJsonStrings.h, https://docs.nvidia.com/datacenter/dcgm/latest/reference/diagnostics/errors.html (read
2026-11-21)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DcgmObject = Mapping[str, Any]

_FAILED = frozenset({"fail", "failed"})


@dataclass(frozen=True)
class DcgmFault:
    """A test that a GPU, or another part of the node, failed."""

    test: str
    entity: str
    words: str


def count_tests(document: DcgmObject) -> int:
    """Return the number of tests that ran, without skipped ones."""
    return sum(
        any(str(each.get("status", "")).lower() not in ("", "skip", "skipped", "not run") for each in results)
        for _, results in _tests(document)
    )


def dcgm_faults(document: DcgmObject) -> tuple[DcgmFault, ...]:
    """Return the failed tests. Warnings of a passed test are left out."""
    faults = [
        DcgmFault(test, _entity(result), "; ".join(_warnings(result)) or "it says no more")
        for test, results in _tests(document)
        for result in results
        if str(result.get("status", "")).lower() in _FAILED
    ]
    if error := _diagnostic(document).get("runtime_error"):
        faults.append(DcgmFault("the diagnostic itself", "the node", str(error)))
    return tuple(faults)


def _diagnostic(document: DcgmObject) -> DcgmObject:
    found: DcgmObject = document.get("DCGM Diagnostic") or document.get("DCGM GPU Diagnostic") or {}
    return found


def _tests(document: DcgmObject) -> Iterator[tuple[str, list[DcgmObject]]]:
    for category in _diagnostic(document).get("test_categories") or ():
        for test in category.get("tests") or ():
            results = list(test.get("results") or ())
            summary = test.get("test_summary")
            # A test of the node instead of a GPU has its status only in the summary.
            yield str(test.get("name")), results or ([summary] if summary else [])


def _entity(result: DcgmObject) -> str:
    if "entity_id" in result:
        return f"{result.get('entity_group', 'entity')} {result['entity_id']}"
    gpu = result.get("gpu_ids", result.get("gpu_id"))
    return "the node" if gpu is None else f"GPU {gpu}"


def _warnings(result: DcgmObject) -> Iterator[str]:
    warnings = result.get("warnings") or ()
    for each in [warnings] if isinstance(warnings, str) else warnings:
        yield str(each.get("warning", "")) if isinstance(each, Mapping) else str(each)
