#!/usr/bin/env bash
# HyperPod's OnCreate entry point. Kubernetes requires it. For Slurm groups, it is used if the platform takes over
# provisioning, and HyperPod then starts no Slurm daemon itself.
# https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-getting-started-slurm-cli.html (read 2026-11-21)
export SLURM_STARTED_BY=script
exec python3 "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run_steps.py"
