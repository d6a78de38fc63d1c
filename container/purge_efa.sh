#!/bin/bash
# Removes what a base image has of AWS's EFA installer. Some releases of NVIDIA's framework images have a part of its packages, whose
# files are not those that dpkg knows, so that the installer refuses to run. It installs all of them again.
# https://github.com/awslabs/awsome-distributed-ai, 3.test_cases/megatron/nemo/Dockerfile (read 2026-11-28)
set -euo pipefail

mapfile -t found < <(dpkg-query --show --showformat='${Package}\n' \
  'efa-config' 'efa-profile' 'libfabric*-aws*' 'libnccl-ofi*' 'openmpi*-aws*' 2>/dev/null)
((${#found[@]} == 0)) || dpkg --purge --force-all "${found[@]}"
