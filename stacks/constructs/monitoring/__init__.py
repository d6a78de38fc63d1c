"""Log groups and alarms of the platform."""
