"""Where logs and alarms go."""
