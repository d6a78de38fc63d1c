#!/usr/bin/env bash
# Makes the Kubernetes cluster able to run a job: the mirrored charts, then the platform's own objects.
#
#   CLUSTER_NAME              EKS cluster
#   AWS_REGION                its region
#   ORCHESTRATOR              eks | hyperpod-eks: which charts
#   MIRROR_REGISTRY, MIRROR_PREFIX, MIRROR_BUCKET_URI   as for mirror.sh
#   NETWORK_ACCESS            private (default) | closed: helm is taken from its copy or not at all
#   MANIFESTS                 directory with values/<chart>.json (chart values of this platform) and objects/*.json (default manifests)
#   ROLLOUT_TIMEOUT_SECONDS   how long one chart may take to become ready; 0: do not wait, for a cluster that has no node yet (default 600)
#   TRAINWAY_*                replace ${TRAINWAY_…} in both kinds of file: facts that are known only once the stack is deployed
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/helm_tool.sh
source "$here/helm_tool.sh"
require CLUSTER_NAME AWS_REGION ORCHESTRATOR MIRROR_REGISTRY MIRROR_PREFIX MIRROR_BUCKET_URI

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tools"
use_helm "$MIRROR_BUCKET_URI" "$work/tools" "$here"
python3 "$here/render_manifests.py" "${MANIFESTS:-$here/../manifests}" "$work/manifests"
export KUBECONFIG=$work/kubeconfig
aws eks update-kubeconfig --name "$CLUSTER_NAME" --region "$AWS_REGION"
aws ecr get-login-password --region "$AWS_REGION" | helm registry login --username AWS --password-stdin "$MIRROR_REGISTRY"

timeout_seconds=${ROLLOUT_TIMEOUT_SECONDS:-600}
wait_words=()
if ((timeout_seconds > 0)); then
  wait_words=(--wait --timeout "${timeout_seconds}s")
fi

charts=$(python3 "$here/mirror_list.py" charts "$ORCHESTRATOR")
while IFS=$'\t' read -r -u 3 chart version _ _ _ _ release namespace platform_values; do
  words=$(python3 "$here/mirror_list.py" set "$chart" "$MIRROR_REGISTRY/$MIRROR_PREFIX" "$AWS_REGION")
  set_words=()
  [[ -z "$words" ]] || mapfile -t set_words <<<"$words"
  values=()
  if [[ "$platform_values" == required && ! -f "$work/manifests/values/$chart.json" ]]; then
    fail "the manifests have no values/$chart.json: without the platform's instance types $chart would run on no node"
  fi
  # The platform's values come last, so that they win.
  for file in "$here/values/$chart.yaml" "$work/manifests/values/$chart.json"; do
    [[ ! -f "$file" ]] || values+=(--values "$file")
  done
  say "chart $chart $version"
  helm upgrade "$release" "oci://$MIRROR_REGISTRY/$MIRROR_PREFIX/charts/$chart" --install --version "$version" \
    --namespace "$namespace" --create-namespace "${values[@]}" "${set_words[@]}" "${wait_words[@]}" ||
    fail "chart $chart $version is not ready; \`kubectl --namespace $namespace get pods\` shows what it waits for"
done 3<<<"$charts"

if compgen -G "$work/manifests/objects/*" >/dev/null; then
  # Server-side, so that a field that another controller owns is not silently taken back on every deploy.
  kubectl apply --server-side --force-conflicts --field-manager=trainway --filename "$work/manifests/objects"
fi
say "cluster $CLUSTER_NAME is ready for jobs"
report "$CLUSTER_NAME"
