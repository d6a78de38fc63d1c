#!/usr/bin/env bash
# HyperPod's OnInitComplete entry point, for Slurm. HyperPod has configured and started Slurm and mounted the file
# systems of the API before this runs. The steps verify both, and add the platform's own parts.
# https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-getting-started-slurm-cli.html (read 2026-11-21)
export SLURM_STARTED_BY=service
exec python3 "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run_steps.py"
