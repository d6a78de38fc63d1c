"""Kubernetes: add-ons, charts, pods of the cluster itself, and the versions of nodes."""
