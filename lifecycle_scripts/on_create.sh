#!/usr/bin/env bash
# HyperPod's OnCreate entry point: for Kubernetes, where it is required, and for Slurm groups whose provisioning the platform
# takes over; HyperPod then starts no Slurm daemon itself.
# https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-getting-started-slurm-cli.html (read 2026-11-21)
export SLURM_STARTED_BY=script
exec python3 "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run_steps.py"
