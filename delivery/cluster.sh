#!/usr/bin/env bash
# Makes the Kubernetes cluster able to run a job: the mirrored charts, then the platform's own objects.
#
#   CLUSTER_NAME              EKS cluster
#   AWS_REGION                its region
#   CHARTS                    the names of the charts of mirror.yaml in the order to install them in, with spaces between; empty for none
#   MIRROR_REGISTRY, MIRROR_PREFIX, MIRROR_BUCKET_URI   as for mirror.sh
#   NETWORK_ACCESS            private (default) | closed: helm is taken from its copy or not at all
#   MANIFESTS                 directory with values/<chart>.json (chart values of this platform) and objects/*.json (default manifests)
#   RETIRE_TIMEOUT_SECONDS    how long the deletion of queues may take, where Kueue or KAI is not chosen any more (default 300)
#   ROLLOUT_TIMEOUT_SECONDS   how long one chart may take to become ready; 0: do not wait, for a cluster that has no node yet (default 600)
#   RUN_AI_SECRET             as for run_ai.sh
#   ADOPTED_CLUSTER           yes: the platform has adopted the cluster, and the stage changes no object of another owner
#   WITHDRAW                  yes: with CHARTS empty, uninstall all charts, and delete the objects of the platform
#   TRAINWAY_*                replace ${TRAINWAY_…} in both kinds of file: facts that are known only once the stack is deployed
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
# shellcheck source=delivery/organization/network.sh
source "$here/organization/network.sh"
trust_organization "$here"
# shellcheck source=delivery/helm_tool.sh
source "$here/helm_tool.sh"
# shellcheck source=delivery/operators.sh
source "$here/operators.sh"
# shellcheck source=delivery/adopted.sh
source "$here/adopted.sh"
# shellcheck source=delivery/run_ai.sh
source "$here/run_ai.sh"
require CLUSTER_NAME AWS_REGION MIRROR_REGISTRY MIRROR_PREFIX MIRROR_BUCKET_URI
[[ -v CHARTS ]] || fail "missing environment variables: CHARTS"
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
kueue_kinds=localqueues,clusterqueues,cohorts,admissionchecks,provisioningrequestconfigs,resourceflavors,topologies,workloadpriorityclasses
retire_seconds=${RETIRE_TIMEOUT_SECONDS:-300}

# Only its controller releases the queues. Without queues, a controller holds back every job.
retire_kueue() {
  kubectl delete "${kueue_kinds//,/.kueue.x-k8s.io,}.kueue.x-k8s.io" --all-namespaces --selector trainway.dev/revision \
    --timeout "${retire_seconds}s" ||
    fail "queues still have jobs, and the teams' nodes with them; end the jobs of \`kubectl get workloads -A\`, and deploy again"
}

# none_asks_for SCHEDULER NAME: ends the stage if pods need the scheduler. A pod that asks for a scheduler which is not there any
# more waits for good, and so does one that a running job makes anew.
# https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/ (read 2026-11-21)
none_asks_for() {
  local waiting asks="spec.schedulerName=$1"
  waiting=$(kubectl get pods --all-namespaces --field-selector "$asks,status.phase!=Succeeded,status.phase!=Failed" --output name)
  [[ -z "$waiting" ]] || fail "jobs still ask for $2; end those of \`kubectl get pods -A --field-selector $asks\`, and deploy again"
}

retire_kai() {
  local until=$((SECONDS + retire_seconds))
  none_asks_for kai-scheduler "the KAI scheduler"
  # Its webhook lets no queue go that others are below, so that the topmost one goes at a later try.
  until kubectl delete queues.scheduling.run.ai,topologies.kai.scheduler --selector trainway.dev/revision; do
    ((SECONDS < until)) || fail "the KAI scheduler's queues cannot be deleted; \`kubectl get queues\` shows them"
    sleep 2
  done
}

# retire_charts LINES: uninstalls what an earlier deploy installed and this one does not choose; lines of `others`.
retire_charts() {
  local chart release namespace
  while IFS=$'\t' read -r -u 3 chart release namespace && [[ -n "$chart" ]]; do
    say "chart $chart is not chosen any more"
    case $chart in
      kueue) retire_kueue ;;
      kai-scheduler) retire_kai ;;
      runai-cluster) none_asks_for runai-scheduler "Run:ai's scheduler" ;;
      kubeflow-trainer) kubectl delete clustertrainingruntimes.trainer.kubeflow.org --selector trainway.dev/revision ;;
      kuberay-operator) release_ray_jobs ;;
    esac
    helm uninstall "$release" --namespace "$namespace" --wait
    [[ "$chart" != runai-cluster ]] || kubectl delete secrets trainway-run-ai runai-reg-creds --namespace "$namespace" --ignore-not-found
  done 3<<<"$1"
}

# retire_volumes OBJECTS: deletes the volumes of a file system that the platform has no more. A claim stays until the last
# pod that uses it has ended.
retire_volumes() {
  local label=trainway.dev/lustre-generation found there
  found=$(grep --recursive --no-filename --only-matching "\"$label\": \"[0-9]*\"" "$1") || true
  there=$(grep --only-matching '"[0-9]*"' <<<"$found" | tr --delete '"' | sort --unique | paste --serial --delimiters ,) || true
  kubectl delete persistentvolumeclaims,persistentvolumes --all-namespaces --wait=false \
    --selector "trainway.dev/revision,$label${there:+,$label notin ($there)}"
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
  if [[ "$1" == runai-cluster ]]; then
    prepare_run_ai "$here" "$work" "$2"
    values+=(--values "$work/run_ai/values.json")
  fi
  helm upgrade "$3" "oci://$MIRROR_REGISTRY/$MIRROR_PREFIX/charts/$1" --install --version "$2" --labels "$ours" \
    --namespace "$4" --create-namespace "${values[@]}" "${set_words[@]}" "${wait_words[@]}" || not_ready "$1" "$2" "$4"
  # Its operator makes the other parts, of which a webhook must answer before there can be a queue.
  # https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/operator/README.md (read 2026-11-21)
  if [[ "$1" == kai-scheduler ]] && ((timeout_seconds > 0)); then
    kubectl wait --for=condition=Available configs.kai.scheduler/kai-config --timeout "${timeout_seconds}s" || not_ready "$1" "$2" "$4"
  fi
}

# install_manifest CHART VERSION RELEASE NAMESPACE SHA256
install_manifest() {
  local copy
  copy=$(manifest_copy "$MIRROR_BUCKET_URI" "$1" "$5")
  aws s3 cp "$copy" "$work/$1.published.yaml" --only-show-errors || fail "the mirror stage has left no manifest $copy"
  must_be "$5" "$work/$1.published.yaml" "$copy"
  python3 "$here/mirror_list.py" manifest "$1" "$MIRROR_REGISTRY/$MIRROR_PREFIX" "$work/$1.published.yaml" >"$work/$1.yaml"
  apply "$work/$1.yaml"
  # A manifest of definitions alone makes no Deployment.
  if [[ "$3" != - ]] && ((timeout_seconds > 0)); then
    kubectl rollout status "deployment/$3" --namespace "$4" --timeout "${timeout_seconds}s" || not_ready "$1" "$2" "$4"
  fi
}

platform=${MIRROR_PREFIX%/mirror}
if [[ "${ADOPTED_CLUSTER:-no}" == yes ]]; then
  is_ours "$platform"
fi
installed=$(helm list --all-namespaces --selector "$ours" --short)
all_others=$(python3 "$here/mirror_list.py" others "${names[@]}")
other_charts=$(awk -F '\t' 'NR == FNR {installed[$1]; next} $2 in installed' <(echo "$installed") - <<<"$all_others")
all_manifests=$(python3 "$here/mirror_list.py" other-manifests "${names[@]}")
other_manifests=$(applied_manifests "$all_manifests")
# Before anything changes.
mapfile -t leaving < <(cut -f 1 <<<"$other_charts"$'\n'"$other_manifests")
for chart in "${leaving[@]}"; do
  no_jobs_of "$chart"
done
if [[ "${WITHDRAW:-no}" == yes ]]; then
  no_pods
  retire_charts "$other_charts"
  retire_manifests "$other_manifests"
  mapfile -t files < <(compgen -G "$work/manifests/objects/*" | sort --reverse)
  delete_objects "${files[@]}"
  kubectl delete "${marker[@]}" --ignore-not-found
  say "the platform $platform has left the cluster $CLUSTER_NAME"
  report "$CLUSTER_NAME"
  exit 0
fi
if [[ "${ADOPTED_CLUSTER:-no}" == yes ]]; then
  refuse_others "$here" "$MIRROR_REGISTRY/$MIRROR_PREFIX" "${names[@]}"
  mapfile -t files < <(compgen -G "$work/manifests/objects/*" | sort)
  refuse_other_objects "$here" "${files[@]}"
  mark "$platform"
fi
# What holds jobs back goes before another comes, which would hold back those that are there already; and what gives
# devices away, before another gives them away a second time.
# https://docs.aws.amazon.com/eks/latest/userguide/device-management.html (read 2026-11-21)
go_first='^(kueue|kai-scheduler|runai-cluster|aws-efa-k8s-device-plugin|aws-dranet|nvidia-device-plugin|dra-driver-nvidia-gpu|gpu-operator)[[:space:]]'
retire_charts "$(grep --extended-regexp "$go_first" <<<"$other_charts" || true)"

chart_list=$(python3 "$here/mirror_list.py" charts "${names[@]}")
# Of no charts there is one line, which is empty.
while IFS=$'\t' read -r -u 3 chart version kind _ pin _ release namespace platform_values && [[ -n "$chart" ]]; do
  say "chart $chart $version"
  if [[ "$kind" == manifest ]]; then
    install_manifest "$chart" "$version" "$release" "$namespace" "$pin"
  else
    install_chart "$chart" "$version" "$release" "$namespace" "$platform_values"
  fi
done 3<<<"$chart_list"

if compgen -G "$work/manifests/objects/*" >/dev/null; then
  apply "$work/manifests/objects"
  retire_volumes "$work/manifests/objects"
fi
# A project takes the namespace that is there.
[[ " $CHARTS " != *" runai-cluster "* ]] || share_run_ai "$here" "$work"

retire_charts "$(grep --extended-regexp --invert-match "$go_first" <<<"$other_charts" || true)"
retire_manifests "$other_manifests"

# Whoever has left the platform file keeps neither rights nor nodes, and what guarded a queue that has gone guards no more.
# Namespaces and what limits them stay, for what is there.
rbac=rbac.authorization.k8s.io admission=admissionregistration.k8s.io
stale=("rolebindings.$rbac" "clusterrolebindings.$rbac" "roles.$rbac" "clusterroles.$rbac")
stale+=("validatingadmissionpolicybindings.$admission" "validatingadmissionpolicies.$admission" priorityclasses.scheduling.k8s.io)
stale+=(daemonsets.apps)
[[ " $CHARTS " != *" kubeflow-trainer "* ]] || stale+=(clustertrainingruntimes.trainer.kubeflow.org)
case " $CHARTS " in
  *" kueue "*)
    stale+=(localqueues.kueue.x-k8s.io clusterqueues.kueue.x-k8s.io resourceflavors.kueue.x-k8s.io)
    stale+=(admissionchecks.kueue.x-k8s.io provisioningrequestconfigs.kueue.x-k8s.io)
    ;;
  *" kai-scheduler "*) stale+=(queues.scheduling.run.ai) ;;
esac
# A queue is deleted when its last job has ended; the deploy does not wait for it.
kubectl delete "$(
  IFS=,
  echo "${stale[*]}"
)" --all-namespaces --selector "trainway.dev/revision,trainway.dev/revision!=$revision" --wait=false
say "cluster $CLUSTER_NAME is ready for jobs"
report "$CLUSTER_NAME"
