"""What AWS, NVIDIA, PyTorch and others publish, as YAML files with their sources, and the functions that read them."""
