"""The command that reads what registries and chart repositories publish, and writes delivery/mirror.lock.yaml.

Maintainers run it. No stage does, and the bundles of the stages do not have it.
"""
