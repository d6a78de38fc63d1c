"""Reports of a run: step times, throughput, model FLOPs utilization (MFU), progress, and traces."""
