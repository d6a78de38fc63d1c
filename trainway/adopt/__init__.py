"""Look at a network, a cluster, or a file system of yours, and describe it as a section of a platform file."""
