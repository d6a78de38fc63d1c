"""Storage: buckets, and file systems with their clients and links."""
