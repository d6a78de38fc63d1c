"""What runs now: the nodes, GPUs, and jobs of platforms and of this machine, for `trainway top`."""
