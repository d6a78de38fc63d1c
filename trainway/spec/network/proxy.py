"""What builds are told of the platform's proxy."""

from __future__ import annotations

from trainway.spec.platform import Platform

# The build's own machine, the addresses of its credentials, and the Kubernetes API, which answers in the VPC.
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/http_proxy_config.html (read 2026-11-23)
DIRECT = ("localhost", "127.0.0.1", "169.254.169.254", "169.254.170.2", ".eks.amazonaws.com", ".eks.amazonaws.com.cn")


def proxy_variables(platform: Platform) -> dict[str, str]:
    """Return the environment variables of the proxy by name. Empty without a proxy.

    https://docs.aws.amazon.com/codebuild/latest/userguide/run-codebuild-in-explicit-proxy-server.html (read 2026-11-23)
    """
    proxy = platform.network.proxy
    if proxy is None:
        return {}
    without = dict.fromkeys((*DIRECT, *proxy.no_proxy))
    return {"HTTPS_PROXY": proxy.https, "HTTP_PROXY": proxy.http or proxy.https, "NO_PROXY": ",".join(without)}
