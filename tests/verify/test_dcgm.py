"""What dcgmi prints is read in its present form and in that of before."""

from __future__ import annotations

import json
from typing import Any

from trainway.verify.dcgm import DcgmFault, count_tests, dcgm_faults

# As testing/python3/dcgm_diag_schema.json of NVIDIA/DCGM describes it.
DCGM_4: dict[str, Any] = json.loads("""
{"DCGM Diagnostic": {"test_categories": [
  {"category": "Deployment", "tests": [
    {"name": "software", "results": [
      {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
      {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 1, "status": "Pass"}],
     "test_summary": {"status": "Pass"}}]},
  {"category": "Hardware", "tests": [
    {"name": "memory", "results": [
      {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
      {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 1, "status": "Fail", "warnings": [
        {"error_category": 10, "error_id": 83, "error_severity": 2,
         "warning": "Detected 1 volatile double-bit ECC error(s) in GPU 1. Drain the GPU and reset it."}]}],
     "test_summary": {"status": "Fail"}},
    {"name": "nvbandwidth", "results": [
      {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Skip"}],
     "test_summary": {"status": "Skip"}}]}]},
 "metadata": {"version": "4.4.1", "Driver Version Detected": "580.95.05"}}
""")
DCGM_3: dict[str, Any] = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Integration",
                "tests": [
                    {"name": "PCIe", "results": [{"gpu_id": "3", "status": "FAIL", "warnings": "PCIe replay rate"}]},
                    {"name": "Denylist", "results": [{"gpu_ids": "0,1,2,3", "status": "PASS"}]},
                ],
            }
        ]
    }
}


def test_the_gpu_that_failed_is_named_with_dcgms_words() -> None:
    (fault,) = dcgm_faults(DCGM_4)
    assert (fault.test, fault.entity) == ("memory", "GPU 1")
    assert fault.words.startswith("Detected 1 volatile double-bit ECC error(s)")


def test_tests_that_were_skipped_are_not_counted_as_run() -> None:
    assert count_tests(DCGM_4) == 2


def test_the_form_of_dcgm_3_is_read_as_well() -> None:
    assert dcgm_faults(DCGM_3) == (DcgmFault("PCIe", "GPU 3", "PCIe replay rate"),)
    assert count_tests(DCGM_3) == 2


def test_a_diagnostic_that_could_not_run_is_a_fault() -> None:
    (fault,) = dcgm_faults({"DCGM Diagnostic": {"runtime_error": "the host engine does not answer"}})
    assert fault.words == "the host engine does not answer"
