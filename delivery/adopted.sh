# shellcheck shell=bash
# Works in a cluster that was there before the platform. Sourced by cluster.sh, after lib.sh and operators.sh.
#
# The stage ends before any change if it would change an object of another owner. Only one platform uses the cluster, because
# two would delete each other's queues. The ConfigMap says which.

marker=(configmap trainway-platform --namespace kube-system)

# key_of CHART: prints what to write in the platform file, so that the platform does without its own.
key_of() {
  case $1 in
    kueue | kai-scheduler) echo "queues: none" ;;
    runai-cluster) echo "queues: run-ai" ;;
    kubeflow-trainer) echo "trainer: false" ;;
    training-operators) echo "pytorch_operator: false" ;;
    mpi-operator) echo "mpi_operator: false" ;;
    kuberay-operator) echo "ray_operator: false" ;;
    cluster-autoscaler) echo "autoscaling: false" ;;
    nvidia-device-plugin) echo "existing: {device_plugins: [nvidia]}" ;;
    aws-efa-k8s-device-plugin) echo "existing: {device_plugins: [efa]}" ;;
    neuron-helm-chart) echo "existing: {device_plugins: [neuron]}" ;;
    dra-driver-nvidia-gpu | gpu-operator) echo "gpu_devices: plugin" ;;
    aws-dranet) echo "efa_devices: plugin" ;;
  esac
}

# is_ours: ends the stage if another platform uses the cluster.
is_ours() {
  local platform=$1 there
  there=$(kubectl get "${marker[@]}" --ignore-not-found --output 'jsonpath={.data.platform}')
  [[ -z "$there" || "$there" == "$platform" ]] ||
    fail "the cluster $CLUSTER_NAME is used by the platform $there already; withdraw that one, or use another cluster"
  [[ -n "$there" ]] || there=$(kubectl get namespaces --selector trainway.dev/revision --output name)
  [[ -z "$there" || "$there" == "$platform" ]] ||
    fail "the cluster $CLUSTER_NAME is that of another platform, which has ${there//$'\n'/, }; use another cluster"
}

# other_owners HERE WORD...: runs delivery/other_owners.py.
other_owners() {
  (cd "$1/.." && python3 -m delivery.other_owners "${@:2}")
}

# refuse_others HERE PREFIX NAME...: ends the stage if somebody else runs what these charts install, from images outside PREFIX.
refuse_others() {
  local here=$1 prefix=$2 found chart kind namespace name release
  shift 2
  found=$(kubectl get deployments,daemonsets,statefulsets --all-namespaces --output json |
    other_owners "$here" workloads "$prefix/" "$@")
  IFS=$'\t' read -r chart kind namespace name <<<"$found" || true
  [[ -z "$chart" ]] || fail "$kind $namespace/$name in the cluster does what chart $chart would do a second time; write \`kubernetes: {$(key_of "$chart")}\`, or remove it"
  found=$(helm list --all-namespaces --selector 'installed-by!=trainway' --short)
  while IFS=$'\t' read -r -u 4 chart _ _ _ _ _ release _ && [[ -n "$chart" ]]; do
    ! grep --quiet --line-regexp --fixed-strings "$release" <<<"$found" ||
      fail "a Helm release $release, which somebody else installed, has the name of chart $chart's; write \`kubernetes: {$(key_of "$chart")}\`, or uninstall it"
  done 4<<<"$(python3 "$here/mirror_list.py" charts "$@")"
}

# existing FILE: prints the objects of the file that are in the cluster, as JSON. Their kind may not be defined yet.
existing() {
  local errors
  errors=$(mktemp)
  if ! kubectl get --filename "$1" --ignore-not-found --show-managed-fields --output json 2>"$errors"; then
    grep --quiet "no matches for kind\|doesn't have a resource type" "$errors" || {
      cat "$errors" >&2
      fail "the objects of $1 cannot be read"
    }
  fi
  rm "$errors"
}

# refuse_other_objects HERE FILE...: ends the stage if one of the objects is in the cluster, and somebody else made it.
refuse_other_objects() {
  local here=$1 file found kind namespace name
  shift
  for file in "$@"; do
    found=$(existing "$file" | other_owners "$here" objects)
    IFS=$'\t' read -r kind namespace name <<<"$found" || true
    [[ -z "$kind" ]] || fail "$kind $name (namespace $namespace) was in the cluster before the platform, which needs one of this name; rename or delete it"
  done
}

# mark PLATFORM
mark() {
  local object
  object=$(mktemp)
  kubectl create "${marker[@]}" --from-literal "platform=$1" --dry-run=client --output json >"$object"
  kubectl apply --server-side --force-conflicts --field-manager=trainway --filename "$object"
  rm "$object"
}

# no_pods: ends the stage if pods run in the namespaces of the platform.
no_pods() {
  local namespaces namespace pods
  namespaces=$(kubectl get namespaces --selector trainway.dev/revision --output name)
  while read -r -u 4 namespace && [[ -n "$namespace" ]]; do
    pods=$(kubectl get pods --namespace "${namespace#namespace/}" --field-selector 'status.phase!=Succeeded,status.phase!=Failed' --output name)
    [[ -z "$pods" ]] || fail "pods run in $namespace: ${pods//$'\n'/, }. Wait until they have ended or delete them, and deploy again"
  done 4<<<"$namespaces"
}

# delete_objects FILE...: deletes the objects of the files that the platform applied. A kind that is gone took its objects along.
delete_objects() {
  local file errors
  errors=$(mktemp)
  for file in "$@"; do
    kubectl delete --filename "$file" --ignore-not-found --wait=false 2>"$errors" ||
      grep --quiet "no matches for kind\|doesn't have a resource type" "$errors" || {
      cat "$errors" >&2
      fail "the objects of $file cannot be deleted"
    }
  done
  rm "$errors"
}
