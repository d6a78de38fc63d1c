#!/usr/bin/env bash
# Tells HyperPod's Karpenter which node groups it makes nodes of. HyperPod itself brings the definitions of these objects,
# and takes them only once its autoscaling is in service.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-spot.html (read 2026-11-21)
#
#   CLUSTER_NAME               EKS cluster
#   AWS_REGION                 its region
#   MANIFESTS                  directory with autoscaling/*.json (default manifests)
#   KARPENTER_TIMEOUT_SECONDS  how long HyperPod may take to have Karpenter running (default 1800)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=delivery/lib.sh
source "$here/lib.sh"
require CLUSTER_NAME AWS_REGION

kinds=nodepools.karpenter.sh,hyperpodnodeclasses.karpenter.sagemaker.amazonaws.com
timeout_seconds=${KARPENTER_TIMEOUT_SECONDS:-1800}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What belongs to the Kubernetes cluster has facts in it that this stage does not know.
mkdir "$work/asked"
cp -R "${MANIFESTS:-$here/../manifests}/autoscaling" "$work/asked/objects"
revision=$(python3 "$here/render_manifests.py" "$work/asked" "$work/manifests")
export KUBECONFIG=$work/kubeconfig
aws eks update-kubeconfig --name "$CLUSTER_NAME" --region "$AWS_REGION"

until=$((SECONDS + timeout_seconds))
until kubectl apply --server-side --force-conflicts --field-manager=trainway --filename "$work/manifests/objects"; do
  ((SECONDS < until)) || fail "HyperPod takes no node pools; \`aws sagemaker describe-cluster\` shows the status of its AutoScaling"
  say "HyperPod's Karpenter is not there yet"
  sleep 15
done
left=$((until > SECONDS + 60 ? until - SECONDS : 60))
kubectl wait --for=condition=Ready nodepools.karpenter.sh --selector "trainway.dev/revision=$revision" --timeout "${left}s" ||
  fail "a node pool is not ready; \`kubectl describe hyperpodnodeclass\` shows what its node class waits for"
# Nodes of a group that Karpenter no longer makes nodes of are removed with its pool.
kubectl delete "$kinds" --selector "trainway.dev/revision,trainway.dev/revision!=$revision" --wait=false
say "Karpenter makes nodes of $CLUSTER_NAME"
report "$CLUSTER_NAME"
