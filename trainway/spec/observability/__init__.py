"""Observability: what is collected, and the log groups of the platform."""
