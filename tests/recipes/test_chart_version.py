"""The recipe of a chart's version is followed with a repository on loopback, which publishes the new version."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.delivery.conftest import listed
from tests.delivery.lock_internet import QuietHandler
from tests.fresh_checkout import fresh_checkout
from tests.kubernetes_tools import tool
from tests.recipes.followed import follow_recipe
from tests.recipes.page import RECIPES

CHART, VERSION = "aws-dranet", "9.9.9"
# What the chart does with the values that a platform sets.
FILES = {
    "Chart.yaml": f"apiVersion: v2\nname: {CHART}\nversion: {VERSION}\n",
    "values.yaml": """\
image: {repository: a, tag: TAG}
supportedInstanceLabels: {keys: [], values: []}
tolerations: []
""",
    "templates/nodes.yaml": """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: aws-dranet}
spec:
  template:
    spec:
      tolerations: {{ toJson .Values.tolerations }}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  {{- range .Values.supportedInstanceLabels.keys }}
                  - {key: {{ . }}, operator: In, values: {{ toJson $.Values.supportedInstanceLabels.values }} }
                  {{- end }}
      containers:
        - name: driver
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
""",
}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """The address of a repository that has the chart."""
    chart, served = tmp_path / CHART, tmp_path / "repository"
    for name, content in FILES.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(content.replace("TAG", listed("images", "dranet")["tag"]))
    for words in (["package", str(chart), "--destination", str(served)], ["repo", "index", str(served)]):
        subprocess.run([tool("helm"), *words], check=True, capture_output=True)
    handler = functools.partial(QuietHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.exhaustive
def test_the_recipe_gives_what_it_promises(repository: str, tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    file = checkout / "delivery/mirror.yaml"
    before, entry, after = file.read_text(encoding="utf-8").partition(f"  - chart: {CHART}\n")
    published = listed("charts", CHART)["repository"]
    file.write_text(before + entry + after.replace(published, repository, 1), encoding="utf-8")
    follow_recipe("chart-version", checkout)


def test_the_chart_is_the_one_of_the_recipe() -> None:
    recipe = (RECIPES / "chart-version.md").read_text(encoding="utf-8")
    assert f"--chart {CHART} " in recipe and f"-> {VERSION}\n" in recipe
