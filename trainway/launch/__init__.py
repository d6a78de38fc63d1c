"""From a job file to a running job."""
