#!/usr/bin/env bash
# Makes the Kubernetes cluster able to run a job: the mirrored charts, then the platform's own objects.
#
#   CLUSTER_NAME              EKS cluster
#   AWS_REGION                its region
#   CHARTS                    the names of the charts of mirror.yaml in the order to install them in, with spaces between
#   MIRROR_REGISTRY, MIRROR_PREFIX, MIRROR_BUCKET_URI   as for mirror.sh
#   NETWORK_ACCESS            private (default) | closed: helm is taken from its copy or not at all
#   MANIFESTS                 directory with values/<chart>.json (chart values of this platform) and objects/*.json (default manifests)
#   RETIRE_TIMEOUT_SECONDS    how long queues may take to let their last jobs go, where Kueue is not chosen any more (default 300)
#   ROLLOUT_TIMEOUT_SECONDS   how long one chart may take to become ready; 0: do not wait, for a cluster that has no node yet (default 600)
#   TRAINWAY_*                replace ${TRAINWAY_…} in both kinds of file: facts that are known only once the stack is deployed
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/helm_tool.sh
source "$here/helm_tool.sh"
require CLUSTER_NAME AWS_REGION CHARTS MIRROR_REGISTRY MIRROR_PREFIX MIRROR_BUCKET_URI
read -r -a names <<<"$CHARTS"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tools"
use_helm "$MIRROR_BUCKET_URI" "$work/tools" "$here"
revision=$(python3 "$here/render_manifests.py" "${MANIFESTS:-$here/../manifests}" "$work/manifests")
export KUBECONFIG=$work/kubeconfig
aws eks update-kubeconfig --name "$CLUSTER_NAME" --region "$AWS_REGION"
aws ecr get-login-password --region "$AWS_REGION" | helm registry login --username AWS --password-stdin "$MIRROR_REGISTRY"

timeout_seconds=${ROLLOUT_TIMEOUT_SECONDS:-600}
wait_words=()
if ((timeout_seconds > 0)); then
  wait_words=(--wait --timeout "${timeout_seconds}s")
fi

# Server-side, so that a field that another controller owns is not silently taken back on every deploy; and a manifest's
# definitions are larger than what kubectl can keep in an annotation.
apply() {
  kubectl apply --server-side --force-conflicts --field-manager=trainway --filename "$1"
}

# not_ready CHART VERSION NAMESPACE
not_ready() {
  fail "chart $1 $2 is not ready; \`kubectl --namespace $3 get pods\` shows what it waits for"
}

# By which helm tells what an earlier deploy installed from what somebody else did.
ours="installed-by=trainway"
kueue_kinds=localqueues,clusterqueues,cohorts,resourceflavors,topologies,workloadpriorityclasses

# retire_chart CHART RELEASE NAMESPACE: takes out what an earlier deploy installed and this one does not choose.
retire_chart() {
  say "chart $1 is not chosen any more"
  # Only its controller lets go of the queues; and while it is there without them it holds back every job for good.
  if [[ "$1" == kueue ]]; then
    kubectl delete "${kueue_kinds//,/.kueue.x-k8s.io,}.kueue.x-k8s.io" --all-namespaces --selector trainway.dev/revision \
      --timeout "${RETIRE_TIMEOUT_SECONDS:-300}s" ||
      fail "queues still have jobs, and the teams' nodes with them; end the jobs of \`kubectl get workloads -A\`, and deploy again"
  fi
  helm uninstall "$2" --namespace "$3" --wait
}

# install_chart CHART VERSION RELEASE NAMESPACE PLATFORM_VALUES
install_chart() {
  local words file set_words=() values=()
  words=$(python3 "$here/mirror_list.py" set "$1" "$MIRROR_REGISTRY/$MIRROR_PREFIX" "$AWS_REGION")
  [[ -z "$words" ]] || mapfile -t set_words <<<"$words"
  if [[ "$5" == required && ! -f "$work/manifests/values/$1.json" ]]; then
    fail "the manifests have no values/$1.json: without the platform's instance types $1 would run on no node"
  fi
  # The platform's values come last, so that they win.
  for file in "$here/values/$1.yaml" "$work/manifests/values/$1.json"; do
    [[ ! -f "$file" ]] || values+=(--values "$file")
  done
  helm upgrade "$3" "oci://$MIRROR_REGISTRY/$MIRROR_PREFIX/charts/$1" --install --version "$2" --labels "$ours" \
    --namespace "$4" --create-namespace "${values[@]}" "${set_words[@]}" "${wait_words[@]}" || not_ready "$1" "$2" "$4"
}

# install_manifest CHART VERSION RELEASE NAMESPACE SHA256
install_manifest() {
  local copy
  copy=$(manifest_copy "$MIRROR_BUCKET_URI" "$1" "$5")
  aws s3 cp "$copy" "$work/$1.published.yaml" --only-show-errors || fail "the mirror stage has left no manifest $copy"
  must_be "$5" "$work/$1.published.yaml" "$copy"
  python3 "$here/mirror_list.py" manifest "$1" "$MIRROR_REGISTRY/$MIRROR_PREFIX" "$work/$1.published.yaml" >"$work/$1.yaml"
  apply "$work/$1.yaml"
  if ((timeout_seconds > 0)); then
    kubectl rollout status "deployment/$3" --namespace "$4" --timeout "${timeout_seconds}s" || not_ready "$1" "$2" "$4"
  fi
}

chart_list=$(python3 "$here/mirror_list.py" charts "${names[@]}")
while IFS=$'\t' read -r -u 3 chart version kind _ pin _ release namespace platform_values; do
  say "chart $chart $version"
  if [[ "$kind" == manifest ]]; then
    install_manifest "$chart" "$version" "$release" "$namespace" "$pin"
  else
    install_chart "$chart" "$version" "$release" "$namespace" "$platform_values"
  fi
done 3<<<"$chart_list"

if compgen -G "$work/manifests/objects/*" >/dev/null; then
  apply "$work/manifests/objects"
fi

installed=$(helm list --all-namespaces --selector "$ours" --short)
other_charts=$(python3 "$here/mirror_list.py" others "${names[@]}")
while IFS=$'\t' read -r -u 3 chart release namespace; do
  if grep --quiet --line-regexp --fixed-strings "$release" <<<"$installed"; then
    retire_chart "$chart" "$release" "$namespace"
  fi
done 3<<<"$other_charts"

# Whoever has left the platform file keeps neither rights nor nodes. Namespaces and what limits them stay, for what is there.
rbac=rbac.authorization.k8s.io
stale=("rolebindings.$rbac" "clusterrolebindings.$rbac" "roles.$rbac" "clusterroles.$rbac")
if [[ " $CHARTS " == *" kueue "* ]]; then
  stale+=(localqueues.kueue.x-k8s.io clusterqueues.kueue.x-k8s.io resourceflavors.kueue.x-k8s.io)
fi
# A queue is deleted when its last job has ended; the deploy does not wait for it.
kubectl delete "$(
  IFS=,
  echo "${stale[*]}"
)" --all-namespaces --selector "trainway.dev/revision,trainway.dev/revision!=$revision" --wait=false
say "cluster $CLUSTER_NAME is ready for jobs"
report "$CLUSTER_NAME"
