"""Pods as processes of this machine: what a kubelet makes of a pod's template, in namespaces of their own.

A pod has its hostname, its /etc with the mounted ConfigMaps, and an address on a network that only the pods of the test
have; of the environment it has what the image says and what the template says, resolved as Kubernetes does.
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
https://github.com/kubernetes/kubernetes/blob/master/third_party/forked/golang/expansion/expand.go
https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (managedHostsFileContent; all read
2026-11-21)
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.launch.kubernetes.platforms import ROOT

# In the pod's own mounts: its /etc is a copy of the machine's. Linux refuses a layer on top of a directory with mounts
# below it, such as a container has in /etc.
_BOOT = """
set -e
mount -t tmpfs tmpfs "$POD_LAYER"
# What this user must not read, no job needs.
cp -r --preserve=mode /etc "$POD_LAYER/etc" 2>"$POD_LAYER/unread" || test -s "$POD_LAYER/unread"
cp -r "$POD_ETC/." "$POD_LAYER/etc/"
mount --bind "$POD_LAYER/etc" /etc
hostname "$POD_HOSTNAME"
exec env -i "$@"
"""


@dataclass(frozen=True)
class Pod:
    """One pod's place: `index` among the job's, and the name and domain that it is found by."""

    index: int
    name: str
    hostname: str
    domain: str = ""

    @property
    def address(self) -> str:
        return f"127.0.0.{self.index + 2}"

    @property
    def hosts(self) -> str:
        """Its own line of /etc/hosts, and what DNS says of it."""
        full = f"{self.hostname}.{self.domain} " if self.domain else ""
        return f"{self.address}\t{full}{self.hostname}\n"


@dataclass
class Network:
    """Where pods run; `pods` are all that DNS knows."""

    holder: int
    directory: Path
    pods: tuple[Pod, ...]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, pod: Pod, template: Mapping[str, Any], config_maps: Mapping[str, Mapping[str, str]]) -> Any:
        """Starts the pod's container; what it prints goes to a file of the pod's name."""
        (container,) = template["spec"]["containers"]
        home = self.directory / f"{pod.name}-{len(self.started)}"
        etc, layer = home / "etc", home / "layer"
        layer.mkdir(parents=True)
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            if config_map := volumes[mount["name"]].get("configMap"):
                place = etc / Path(mount["mountPath"]).relative_to("/etc")
                place.mkdir(parents=True)
                for name, text in config_maps[config_map["name"]].items():
                    (place / name).write_text(text)
        others = "".join(each.hosts for each in self.pods if each != pod)
        (etc / "hosts").write_text(f"127.0.0.1\tlocalhost\n{pod.hosts}{others}")
        environment = image_environment(home) | resolved(container["env"], pod)
        # What Kubernetes resolves in a command is what stands in the template.
        own = resolved(container["env"], pod)
        command = [expanded(word, own) for word in container["command"]]
        enter = ("nsenter", f"--target={self.holder}", "--user", "--net", "--preserve-credentials")
        boot = ("unshare", "--mount", "--uts", "sh", "-c", _BOOT, "pod")
        variables = [f"{name}={value}" for name, value in environment.items()]
        process = subprocess.Popen(
            [*enter, *boot, *variables, *command],
            env={
                "PATH": os.environ["PATH"],
                "POD_ETC": str(etc),
                "POD_LAYER": str(layer),
                "POD_HOSTNAME": pod.hostname,
            },
            cwd=self.directory,
            stdout=(self.directory / f"{home.name}.log").open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process


@contextmanager
def network(directory: Path, pods: tuple[Pod, ...]) -> Iterator[Network]:
    """A network with nothing but loopback, for as long as the block lasts; so do its pods."""
    holding = "ip link set lo up && echo up && exec sleep 7200"
    command = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c", holding)
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    made = Network(holder.pid, directory, pods)
    try:
        yield made
    finally:
        for process in made.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        holder.kill()
        holder.wait()


def image_environment(home: Path) -> dict[str, str]:
    """What the image says (container/Dockerfile), with this checkout in the place of its code."""
    binaries = Path(sys.executable).parent
    return {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "HOME": str(home),
    }


def resolved(variables: list[dict[str, Any]], pod: Pod) -> dict[str, str]:
    """The environment, in whose values $(NAME) is a variable from before."""
    fields = {
        "metadata.name": pod.name,
        "spec.nodeName": f"ip-10-0-0-{pod.index + 1}.us-west-2.compute.internal",
        "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(pod.index),
    }
    environment: dict[str, str] = {}
    for variable in variables:
        if "valueFrom" in variable:
            environment[variable["name"]] = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        else:
            environment[variable["name"]] = expanded(variable["value"], environment)
    return environment


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """$$ is $, $(NAME) the variable's value; an unknown one stays as it is."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)
