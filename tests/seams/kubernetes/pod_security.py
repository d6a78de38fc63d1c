"""Check a pod against each control of the Pod Security Standards, as the API server's admission does.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ (read 2026-11-27)
https://github.com/kubernetes/pod-security-admission/tree/v0.34.0/policy (read 2026-11-22)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_SELINUX = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
}
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"),
}
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def baseline_violations(template: dict[str, Any]) -> list[str]:
    """Return the controls that a pod or a pod template violates."""
    pod: dict[str, Any] = template["spec"]
    annotations: dict[str, str] = template.get("metadata", {}).get("annotations", {})
    security: dict[str, Any] = pod.get("securityContext", {})
    return [
        *(f"host namespaces: {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)),
        *(f"hostPath volumes: {each['name']}" for each in pod.get("volumes", ()) if "hostPath" in each),
        *(f"sysctls: {each['name']}" for each in security.get("sysctls", ()) if each["name"] not in _SYSCTLS),
        *(
            f"AppArmor: {key}={value}"
            for key, value in annotations.items()
            if key.startswith(_APP_ARMOR) and value != "runtime/default" and not value.startswith("localhost/")
        ),
        *_of_any(security, "the pod"),
        *(
            violation
            for kind in ("initContainers", "containers", "ephemeralContainers")
            for container in pod.get(kind, ())
            for violation in _of_container(container)
        ),
    ]


def _of_any(security: dict[str, Any], whose: str) -> Iterator[str]:
    """The controls that a pod and its containers have alike."""
    if security.get("windowsOptions", {}).get("hostProcess"):
        yield f"HostProcess: {whose}"
    if security.get("seccompProfile", {}).get("type") == "Unconfined":
        yield f"seccomp: {whose} is Unconfined"
    if security.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield f"AppArmor: {whose} is Unconfined"
    labels = security.get("seLinuxOptions", {})
    if labels.get("type", "") not in _SELINUX or labels.get("user") or labels.get("role"):
        yield f"SELinux: {whose} has {labels}"


def _of_container(container: dict[str, Any]) -> Iterator[str]:
    whose, security = container["name"], container.get("securityContext", {})
    yield from _of_any(security, whose)
    if security.get("privileged"):
        yield f"privileged containers: {whose}"
    if added := set(security.get("capabilities", {}).get("add", ())) - _CAPABILITIES:
        yield f"capabilities: {whose} adds {', '.join(sorted(added))}"
    if security.get("procMount", "Default") != "Default":
        yield f"/proc mount type: {whose}"
    if ports := [each["hostPort"] for each in container.get("ports", ()) if each.get("hostPort")]:
        yield f"host ports: {whose} has {ports}"
    hooks = container.get("lifecycle", {}).values()
    probes = [container.get(name, {}) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    for each in (*hooks, *probes):
        if any(each.get(kind, {}).get("host") for kind in ("httpGet", "tcpSocket")):
            yield f"host probes and lifecycle hooks: {whose}"


def restricted_violations(template: dict[str, Any]) -> list[str]:
    """Return the controls of `restricted` that a pod or a pod template violates, with those of `baseline`."""
    pod: dict[str, Any] = template["spec"]
    security: dict[str, Any] = pod.get("securityContext", {})
    return [
        *baseline_violations(template),
        *(f"volume types: {each['name']}" for each in pod.get("volumes", ()) if not set(each) - {"name"} <= _VOLUMES),
        *(["running as non-root user: the pod"] if security.get("runAsUser") == 0 else []),
        *(
            violation
            for kind in ("initContainers", "containers", "ephemeralContainers")
            for container in pod.get(kind, ())
            for violation in _restricted(container, security)
        ),
    ]


def _restricted(container: dict[str, Any], of_pod: dict[str, Any]) -> Iterator[str]:
    whose, security = container["name"], container.get("securityContext", {})
    if security.get("allowPrivilegeEscalation") is not False:
        yield f"privilege escalation: {whose}"
    if security.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
        yield f"running as non-root: {whose}"
    if security.get("runAsUser") == 0:
        yield f"running as non-root user: {whose}"
    profile = security.get("seccompProfile", of_pod.get("seccompProfile", {}))
    if profile.get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"seccomp: {whose}"
    capabilities = security.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield f"capabilities: {whose}"
