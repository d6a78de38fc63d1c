"""Pipelines that build, mirror, and install: their stages, their sources, and the registry that they fill."""
