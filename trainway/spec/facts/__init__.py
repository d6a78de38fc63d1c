"""Facts that AWS, NVIDIA, PyTorch, and others publish: YAML files with sources, and functions that read them."""
