"""Capacity: node groups, their devices and types, reserved and scaled nodes, and quotas."""
