"""The other variants of the image, and its add-ons."""

from __future__ import annotations

import pytest

from tests.container import stand_ins
from tests.container.builder import REGISTRY
from tests.container.image.yard import BASE, OF_THE_BASE, Yard
from trainway.spec.loader import load_versions

# The first of these builds the whole image, which takes a minute.
pytestmark = pytest.mark.exhaustive


def test_without_a_snapshot_the_base_keeps_its_sources_and_packages(built: Yard):
    built.through("base", "live", built.arguments["cuda"] | {"UBUNTU_SNAPSHOT": ""})
    of_today = {f"{name}=1:100" for name in stand_ins.INSTALLED} | {f"{OF_THE_BASE}=1.0"}
    assert built.versions_of_packages("live") == of_today


def test_an_image_for_cpus_has_no_network_but_the_hosts(built: Yard):
    done = built.image("cpu", built.arguments["cpu"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.inside("cpu", "torchrun", "--help").startswith("usage: torchrun")
    of_others = "/opt/amazon /opt/nccl-tests /usr/local/lib/libgdrapi.so"
    assert built.inside("cpu", "bash", "-c", f"ls -d {of_others} 2>/dev/null || echo none") == "none\n"
    assert not any(each.startswith("NCCL_") for each in built.configuration("cpu")["Env"])


def test_transformer_engine_is_compiled_and_checked(built: Yard):
    arguments = built.arguments["cuda"] | built.transformer_engine
    done = built.image("engine", arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    version = arguments["TRANSFORMER_ENGINE_VERSION"]
    read = "import importlib.metadata; print(importlib.metadata.version('transformer_engine_torch'))"
    assert built.inside("engine", "python", "-c", read) == f"{version}\n"
    assert built.configuration("engine")["Labels"]["trainway.transformer-engine"] == version
    other = built.image("engine-other", arguments | {"TRANSFORMER_ENGINE_TORCH_SHA256": "0" * 64})
    assert "DO NOT MATCH THE HASHES" in other.stdout + other.stderr


def test_nemo_is_installed_from_its_list_and_started(built: Yard):
    arguments = built.arguments["cuda"] | built.nemo
    done = built.image("nemo", arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.inside("nemo", "automodel").startswith("usage: automodel")
    labels = built.configuration("nemo")["Labels"]
    assert (labels["trainway.nemo"], labels["trainway.transformer-engine"]) == (arguments["NEMO_VERSION"], "")


def test_flash_attention_is_installed_from_its_list(built: Yard):
    done = built.image("attention", built.arguments["cuda"] | built.flash_attention)
    assert done.returncode == 0, done.stdout + done.stderr
    version = built.flash_attention["FLASH_ATTENTION_VERSION"]
    read = "import importlib.metadata; print(importlib.metadata.version('flash-attn-4'))"
    assert built.inside("attention", "python", "-c", read) == f"{version}\n"
    assert built.configuration("attention")["Labels"]["trainway.flash-attention"] == version


def test_a_platform_with_the_training_operator_has_hyperpodrun(built: Yard):
    # Stages that are built, with another PyTorch in them.
    built.through("pytorch", "pytorch", built.arguments["cuda"])
    other = ("torch", "PYTORCH_VERSION"), ("nvidia-nccl-cu13", "NCCL_VERSION")
    packages = " ".join(f"{name}=={built.agent[version]}" for name, version in other)
    install = f"/opt/trainway/bin/pip install --quiet --no-deps {packages}"
    built.derive(f"{REGISTRY}/atlas/training:pytorch", "localhost/older:1", install)
    done = built.image("agent", built.agent, INSTEAD="pytorch=docker-image://localhost/older:1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--shutdown-signal" in built.inside("agent", "hyperpodrun", "--help")
    labels = built.configuration("agent")["Labels"]
    assert labels["trainway.hyperpod-elastic-agent"] == built.agent["HYPERPOD_ELASTIC_AGENT_VERSION"]
    assert labels["trainway.versions"] == "pytorch-2.11"


def test_the_agent_is_refused_by_a_pytorch_that_is_too_new_for_it(built: Yard):
    agent = {name: value for name, value in built.agent.items() if name.startswith("HYPERPOD_")}
    done = built.image("agent-too-new", built.arguments["cuda"] | agent)
    assert done.returncode != 0
    assert "has requirement torch<2.12.0,>=2.4.0, but you have torch 2.13.0" in done.stdout + done.stderr


def test_nemo_and_transformer_engine_are_in_one_image(built: Yard):
    done = built.image("both", built.arguments["cuda"] | built.transformer_engine | built.nemo)
    assert done.returncode == 0, done.stdout + done.stderr
    read = "import importlib.metadata as m; print(m.version('transformer_engine_torch'), m.version('nemo-automodel'))"
    versions = load_versions()
    expected = [versions.transformer_engine[0].version, versions.nemo[0].version]
    assert built.inside("both", "python", "-c", read).split() == expected
    labels = built.configuration("both")["Labels"]
    assert [labels["trainway.transformer-engine"], labels["trainway.nemo"]] == expected


def test_an_image_for_neuron_keeps_what_its_base_has(built: Yard):
    packages = "/usr/local/lib/python3.11/dist-packages"
    download = f"zipfile.ZipFile(io.BytesIO(urllib.request.urlopen('{built.torch}').read())).extractall('{packages}')"
    numpy = f"{packages}/numpy-1.26.4.dist-info"
    sdk = [
        f'python3 -c "import io, urllib.request, zipfile; {download}"',
        f"mkdir -p {packages}/torch_neuronx {packages}/nvidia/nccl {numpy} /opt/amazon/efa/bin",
        f"printf 'Metadata-Version: 2.1\\nName: numpy\\nVersion: 1.26.4\\n' >{numpy}/METADATA",
        f"touch {numpy}/RECORD",
        "printf '#!/bin/sh\\necho efa:\\n' >/opt/amazon/efa/bin/fi_info",
        "chmod +x /opt/amazon/efa/bin/fi_info",
    ]
    built.derive(BASE, "localhost/neuron:1", " && ".join(sdk))
    done = built.image("neuron", built.arguments["neuron"] | {"BASE_IMAGE": "localhost/neuron:1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.inside("neuron", "python", "-c", "import torch; print(torch.__file__)").startswith(packages)
    read = "import importlib.metadata; print(importlib.metadata.version('numpy'))"
    assert built.inside("neuron", "python", "-c", read) == "1.26.4\n"
