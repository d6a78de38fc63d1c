"""What a run reports of itself: step times, throughput, model FLOPs utilization (MFU), progress, and traces."""
