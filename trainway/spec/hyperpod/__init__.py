"""HyperPod: health checks, and what HyperPod supports."""
