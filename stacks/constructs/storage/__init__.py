"""The data bucket, the file systems, and the jobs' permissions for their data."""
