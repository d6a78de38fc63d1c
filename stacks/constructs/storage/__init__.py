"""The data bucket, the file systems, and what jobs may do with their data."""
