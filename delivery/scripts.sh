#!/usr/bin/env bash
# Puts lifecycle_scripts/ and the parameters of this platform at the prefix that HyperPod nodes read when they are created.
#
#   LIFECYCLE_S3_URI      s3://bucket/prefix, which the execution role of the nodes reads
#   ORCHESTRATOR          hyperpod-slurm | hyperpod-eks
#   CONTROLLER_GROUP      instance group of the Slurm controller; empty on Kubernetes
#   LOGIN_GROUP           instance group of the login nodes; may be empty
#   FSX_DNS_NAME, FSX_MOUNT_NAME, FSX_MOUNT_PATH   the FSx for Lustre file system; all empty: none
#   FSX_MOUNTED_BY        service: HyperPod mounts it (FsxLustreConfig), the node only verifies | script: the node mounts it
#   HOMES_DNS_NAME, HOMES_MOUNT_PATH, HOMES_MOUNTED_BY   the FSx for OpenZFS file system of home directories; all empty: none
#   CONTAINERS            enroot and pyxis on Slurm nodes, made by node_packages.sh: required | wanted | none or empty
#   EXPORTERS             true: metrics of every node of Slurm for Prometheus | false or empty
#   NETWORK_ACCESS        private (default) | closed: see node_packages.sh
#   LUSTRE_EFA_INTERFACES JSON object: by instance group, how many EFA interfaces Lustre uses; empty: none, in all of them
#   SLURM_NODES           JSON object: what Slurm on the nodes is told (trainway/spec/slurm_nodes.py); empty: nothing
#   SLURM_ACCOUNTS_S3_URI, SLURM_ACCOUNTS_REGION   where a controller fetches its teams from, again and again; empty: none
#   SLURM_USERS_S3_URI, SLURM_USERS_REGION   where every node fetches its users from, again and again; empty: none
#   SLURM_DIRECTORY       JSON object: the LDAP directory of users (trainway/spec/slurm_users.py); empty: none
#   HUGE_PAGES_2MIB       2 MiB pages to reserve on a node, at least; 0 or empty: leave the image's setting
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
require LIFECYCLE_S3_URI ORCHESTRATOR
[[ "$LIFECYCLE_S3_URI" =~ ^s3://[^/]+/.+ ]] ||
  fail "LIFECYCLE_S3_URI is '$LIFECYCLE_S3_URI': it must name a prefix, because everything else below it is deleted"

certificates=$here/../lifecycle_scripts/certificates
wrong=$(python3 "$certificates.py" check "$certificates" 2>&1) || fail "no node would trust these certificates:"$'\n'"$wrong"

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
# Fresh modification times: `aws s3 sync` compares only size and time, and must never leave an older file of equal length.
cp -R "$here/../lifecycle_scripts/." "$staging/"
find "$staging" -name __pycache__ -prune -exec rm -rf {} +
if [[ "${CONTAINERS:-}" == required || "${CONTAINERS:-}" == wanted ]]; then
  bash "$here/node_packages.sh" "$staging/packages"
fi
python3 "$here/lifecycle_parameters.py" >"$staging/parameters.json"
find "$staging" -type f -exec touch {} +

aws s3 sync "$staging" "${LIFECYCLE_S3_URI%/}/" --delete --no-progress
say "lifecycle scripts are at $LIFECYCLE_S3_URI"
if [[ -n "${SLURM_ACCOUNTS_S3_URI:-}" ]]; then
  # At a place of its own: a change of teams reaches the controller that there is, and makes no new version of the scripts.
  aws s3 cp "$here/../manifests/slurm-accounts.json" "$SLURM_ACCOUNTS_S3_URI" --only-show-errors
  say "the teams are at $SLURM_ACCOUNTS_S3_URI"
fi
if [[ -n "${SLURM_USERS_S3_URI:-}" ]]; then
  aws s3 cp "$here/../manifests/slurm-users.json" "$SLURM_USERS_S3_URI" --only-show-errors
  say "the users are at $SLURM_USERS_S3_URI"
fi
report "$LIFECYCLE_S3_URI"
