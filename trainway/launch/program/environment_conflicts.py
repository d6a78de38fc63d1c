"""Environment variables of a program that take away what the image and the nodes provide."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# Values with which a variable takes nothing away, in lower case. The plugin has two names, which NCCL compares without
# case: nvidia_plugin_name_fixup in src/nccl_ofi_interface_nvidia.cpp of aws-ofi-nccl (read 2026-11-29)
_HARMLESS = {
    "NCCL_NET": ("aws libfabric", "libfabric"),
    "NCCL_NET_PLUGIN": ("ofi", "aws-ofi"),
    "FI_PROVIDER": ("efa",),
}
_IMAGE = "replaces what the image sets, by which its programs and the plugin of EFA are found"
_TAKEN: Mapping[str, str] = {
    "NCCL_NET": "chooses another network than EFA",
    "NCCL_NET_PLUGIN": "chooses another plugin than that of EFA",
    "NCCL_TUNER_PLUGIN": "is the file of another image, and replaces the tuner of the plugin of EFA",
    "NCCL_SOCKET_IFNAME": "chooses the interfaces of NCCL, and those of a node have other names",
    "GLOO_SOCKET_IFNAME": "chooses the interface of Gloo, and those of a node have other names",
    "FI_PROVIDER": "chooses another provider of libfabric than efa",
    "LD_LIBRARY_PATH": _IMAGE,
    "LD_PRELOAD": "loads a library into each process before those of the image",
    "PATH": _IMAGE,
    "PYTHONHOME": "replaces the Python of the image",
    "CUDA_VISIBLE_DEVICES": "hides GPUs of the node, each of which a rank uses",
    "NVIDIA_VISIBLE_DEVICES": "hides GPUs of the node, each of which a rank uses",
    "NEURON_RT_VISIBLE_CORES": "hides NeuronCores of the node",
    "NCCL_P2P_DISABLE": "turns NVLink off between the GPUs of a node",
    "NCCL_SHM_DISABLE": "turns shared memory off between the GPUs of a node",
}


def taken_away(environment: Mapping[str, str], allowed: Collection[str], ranks: int | None) -> dict[str, str]:
    """Return what each variable takes away, by its name. Variables in `allowed` are left out.

    `ranks` is the number of accelerators of a node, or None if it is not known.
    """
    return {
        name: _TAKEN[name]
        for name, value in environment.items()
        if name in _TAKEN and name not in allowed and not _is_harmless(name, value.strip().lower(), ranks)
    }


def _is_harmless(name: str, value: str, ranks: int | None) -> bool:
    if name.endswith("_VISIBLE_DEVICES"):
        # All GPUs of a node. Most types with several have eight.
        return value == "all" or set(value.replace(" ", "").split(",")) >= set(map(str, range(ranks or 8)))
    return value in _HARMLESS.get(name, ()) or (name.endswith("_DISABLE") and value in ("", "0"))
