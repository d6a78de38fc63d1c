"""From a job file to a job that a target has taken."""
