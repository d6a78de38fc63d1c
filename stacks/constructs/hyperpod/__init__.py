"""A HyperPod cluster: its instance groups with volumes and patching, its role, and its add-ons."""
