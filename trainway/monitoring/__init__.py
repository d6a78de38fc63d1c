"""Alarms and dashboards of a platform: written once, and derived for Prometheus and for CloudWatch."""
