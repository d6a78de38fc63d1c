"""The autoscaling stage waits until HyperPod takes node pools, and takes back the ones that are not asked for."""

import json

import pytest

from tests.delivery.conftest import Workshop

# Refuses what is applied until it was tried often enough, as the API server does before HyperPod has brought the kinds.
KUBECTL = r"""
if [[ "$1" == apply ]]; then
  tries=$(($(cat "$TRIES" 2>/dev/null || echo 0) + 1))
  echo "$tries" >"$TRIES"
  ((tries > ${REFUSALS:-0})) || { echo 'no matches for kind "NodePool"' >&2; exit 1; }
  cp -R "${!#}" "$APPLIED"
fi
[[ "$1" != wait ]] || exit "${READY:-0}"
"""


@pytest.fixture
def pools(aws: Workshop) -> Workshop:
    directory = aws.root / "manifests" / "autoscaling"
    directory.mkdir(parents=True)
    (directory / "000-nodepool-tune.json").write_text('{"kind": "NodePool", "metadata": {"name": "tune"}}')
    # Facts of another stage's, which this one is not given.
    (aws.root / "manifests" / "objects").mkdir()
    (aws.root / "manifests" / "objects" / "10.json").write_text('{"handle": "${TRAINWAY_FSX_ID}"}')
    aws.environment |= {
        "CLUSTER_NAME": "atlas",
        "TRIES": str(aws.root / "tries"),
        "APPLIED": str(aws.root / "applied"),
    }
    aws.stand_in("kubectl", KUBECTL)
    aws.stand_in("sleep")
    return aws


def test_node_pools_are_applied_once_hyperpod_takes_them(pools: Workshop) -> None:
    done = pools.run("autoscaling.sh", REFUSALS="2")
    assert done.returncode == 0, done.stderr
    assert len(pools.called("kubectl", "apply")) == 3
    (applied,) = (pools.root / "applied").glob("*.json")
    revision = json.loads(applied.read_text())["metadata"]["labels"]["trainway.dev/revision"]
    (wait,) = pools.called("kubectl", "wait")
    assert f"trainway.dev/revision={revision}" in wait
    (delete,) = pools.called("kubectl", "delete")
    assert f"trainway.dev/revision,trainway.dev/revision!={revision}" in delete


def test_hyperpod_that_never_takes_them_fails_the_deploy_with_where_to_look(pools: Workshop) -> None:
    done = pools.run("autoscaling.sh", REFUSALS="9", KARPENTER_TIMEOUT_SECONDS="0")
    assert done.returncode == 1
    assert "the status of its AutoScaling" in done.stderr
    assert not pools.called("kubectl", "delete")


def test_a_pool_that_is_not_ready_fails_the_deploy_and_no_other_is_removed(pools: Workshop) -> None:
    done = pools.run("autoscaling.sh", READY="1")
    assert done.returncode == 1
    assert "kubectl describe hyperpodnodeclass" in done.stderr
    assert not pools.called("kubectl", "delete")
