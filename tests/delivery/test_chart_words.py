"""The cluster stage gives Helm the values that tests/seams renders the charts with."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.delivery.conftest import Workshop
from tests.seams.charts.installed import Installed, catalogue, installed_charts, merged, spoken
from tests.seams.shapes import kubernetes_platforms
from trainway.manifests import cluster_manifests
from trainway.manifests.export import FACT


def given(cluster: Workshop, installed: Installed) -> dict[str, object]:
    """The values that the stage gave to Helm for a chart, merged as Helm merges them."""
    release = installed.entry["release"]
    [call] = [call for call in cluster.called("helm", "upgrade") if call[2] == release]
    values: dict[str, object] = {}
    for file in sorted((cluster.root / "s3/values").glob(f"{release}.*")):
        values = merged(values, yaml.safe_load(file.read_text(encoding="utf-8")))
    words = [word for pair in pairwise(call) if pair[0] == "--set-string" for word in pair]
    return merged(values, spoken(words))


@pytest.mark.parametrize("name", ["mig", "neuron-and-gpus"])
def test_helm_is_given_what_the_charts_are_rendered_with(aws: Workshop, helm_archive: Path, name: str) -> None:
    platform = kubernetes_platforms()[name]
    shutil.copy(helm_archive, aws.root / "s3")
    for object_name, manifest in cluster_manifests(platform, catalogue()).items():
        file = aws.root / "manifests" / f"{object_name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(FACT.sub("x", json.dumps(manifest)), encoding="utf-8")
    charts = [each for each in installed_charts(platform) if "manifest" not in each.entry]
    names = " ".join(each.chart for each in charts)
    done = aws.run("cluster.sh", CHARTS=names, CLUSTER_NAME="atlas")
    assert done.returncode == 0, done.stderr
    assert [given(aws, each) for each in charts] == [each.values for each in charts]
    namespaces = [call[call.index("--namespace") + 1] for call in aws.called("helm", "upgrade")]
    assert namespaces == [each.entry["namespace"] for each in charts]
