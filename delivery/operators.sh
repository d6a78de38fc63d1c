# shellcheck shell=bash
# Takes operators of jobs out of a cluster. Sourced by cluster.sh, after lib.sh.
#
# A job without its operator neither ends nor frees its nodes: nothing deletes the workers of an MPIJob or the cluster of a RayJob.
# The definitions of the jobs stay, and the jobs that have ended with them, as Helm leaves what a chart has below `crds`.
# https://helm.sh/docs/chart_best_practices/custom_resource_definitions/ (read 2026-11-23)

# unfinished KIND FIELD: prints the namespace and name of each object without a value in the field.
unfinished() {
  kubectl get "$1" --all-namespaces \
    --output "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {$2}{\"\\n\"}{end}" | awk 'NF == 1 {print $1}'
}

# no_jobs_of CHART: ends the stage if jobs still need the operator that the chart installs.
no_jobs_of() {
  local left
  case $1 in
    # Trainer makes a JobSet of each TrainJob.
    kubeflow-trainer) left=$(unfinished jobsets.jobset.x-k8s.io .status.terminalState) ;;
    training-operators) left=$(unfinished pytorchjobs.kubeflow.org .status.completionTime) ;;
    mpi-operator) left=$(unfinished mpijobs.kubeflow.org .status.completionTime) ;;
    # A cluster outlives its RayJob by a minute.
    kuberay-operator) left=$(unfinished rayjobs.ray.io .status.endTime && unfinished rayclusters.ray.io .status.none) ;;
    *) return 0 ;;
  esac
  [[ -z "$left" ]] || fail "jobs still need $1: ${left//$'\n'/,}. Wait until they have ended or delete them, and deploy again"
}

# release_ray_jobs: removes KubeRay's finalizers, which nobody else removes. Without that, no RayJob can be deleted any more.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayjob_controller.go (Reconcile, read 2026-11-23)
release_ray_jobs() {
  local job
  while read -r -u 4 job && [[ -n "$job" ]]; do
    kubectl patch rayjobs.ray.io "${job#*/}" --namespace "${job%/*}" --type merge --patch '{"metadata": {"finalizers": null}}'
  done 4<<<"$(unfinished rayjobs.ray.io .metadata.none)"
}

# applied_manifests LINES: prints those lines whose Deployment this stage has applied; lines of `other-manifests`.
applied_manifests() {
  local chart deployment namespace managers
  while IFS=$'\t' read -r -u 4 chart deployment namespace && [[ -n "$chart" ]]; do
    managers=$(kubectl get deployments --namespace "$namespace" --field-selector "metadata.name=$deployment" \
      --show-managed-fields --output 'jsonpath={.items[*].metadata.managedFields[*].manager}')
    [[ " $managers " != *" trainway "* ]] || printf '%s\t%s\t%s\n' "$chart" "$deployment" "$namespace"
  done 4<<<"$1"
}

# retire_manifests LINES: deletes the Deployments of manifests that are not chosen any more; lines of `applied_manifests`.
retire_manifests() {
  local chart deployment namespace
  while IFS=$'\t' read -r -u 3 chart deployment namespace && [[ -n "$chart" ]]; do
    say "chart $chart is not chosen any more; its definitions, roles, and namespace stay"
    kubectl delete deployment "$deployment" --namespace "$namespace"
  done 3<<<"$1"
}
