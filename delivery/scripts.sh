#!/usr/bin/env bash
# Puts lifecycle_scripts/ and the parameters of this platform at the prefix that HyperPod nodes read when they are created.
# The parameters are nodes/parameters.json of the bundle, of which trainway/spec/slurm/node_parameters.py is the author.
#
#   LIFECYCLE_S3_URI           s3://bucket/prefix, which the execution role of the nodes reads
#   TRAINWAY_*                 replace ${TRAINWAY_…} in the parameters, teams, and users: facts that are known only once the
#                              stack is deployed
#   TRAINWAY_DOCUMENTS_S3_URI  where nodes of Slurm fetch their teams and users from, again and again; unset on Kubernetes
#   NETWORK_ACCESS             private (default) | closed: see node_packages.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/organization/network.sh
source "$here/organization/network.sh"
require LIFECYCLE_S3_URI
[[ "$LIFECYCLE_S3_URI" =~ ^s3://[^/]+/.+ ]] ||
  fail "LIFECYCLE_S3_URI is '$LIFECYCLE_S3_URI': it must name a prefix, because everything else below it is deleted"

scripts=$here/../lifecycle_scripts
wrong=$(python3 "$scripts/certificates.py" check "$scripts/yours/certificates" 2>&1) ||
  fail "no node would trust these certificates:"$'\n'"$wrong"
trust_organization "$here"

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
# Fresh modification times: `aws s3 sync` compares only size and time, and must never leave an older file of equal length.
cp -R "$scripts/." "$staging/"
find "$staging" -name __pycache__ -prune -exec rm -rf {} +
# It must not be called provisioning_parameters.json: HyperPod refuses a cluster that has both such a file at its SourceS3Uri
# and a SlurmConfig in the API.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-slurm-api-config-migration.html (read 2026-11-21)
python3 "$here/render_manifests.py" "$here/../nodes" "$staging" >/dev/null
# By the reader of the nodes, so that none is delivered what it does not understand.
known=$(python3 "$staging/node_facts.py" --parameters "$staging/parameters.json") || fail "no node would understand its parameters"
# What node_packages.sh makes for such nodes.
packages=$(python3 -c 'import json, sys
parameters = json.load(sys.stdin)
print(*["containers"] * (parameters["containers"] != "none"), *["exporters"] * parameters["exporters"],
      *["collector"] * (parameters["slurm_scraping"] is not None))' <<<"$known")
read -r -a parts <<<"$packages"
((${#parts[@]} == 0)) || bash "$here/node_packages.sh" "$staging/yours/packages" "${parts[@]}"
find "$staging" -type f -exec touch {} +

aws s3 sync "$staging" "${LIFECYCLE_S3_URI%/}/" --delete --no-progress
say "lifecycle scripts are at $LIFECYCLE_S3_URI"
if [[ -n "${TRAINWAY_DOCUMENTS_S3_URI:-}" ]]; then
  # Not with the scripts: a change of teams, users, or what is scraped reaches the nodes that there are, and makes no new version of the scripts.
  documents=$staging/documents
  python3 "$here/render_manifests.py" "$here/../manifests" "$documents" >/dev/null
  # A controller that is to collect no metrics any more learns it from an empty document.
  [[ -e "$documents/slurm-scraping.json" ]] || echo '{}' >"$documents/slurm-scraping.json"
  for document in slurm-accounts slurm-users slurm-scraping; do
    aws s3 cp "$documents/$document.json" "$TRAINWAY_DOCUMENTS_S3_URI/$document.json" --only-show-errors
    say "$document.json is at $TRAINWAY_DOCUMENTS_S3_URI"
  done
fi
report "$LIFECYCLE_S3_URI"
