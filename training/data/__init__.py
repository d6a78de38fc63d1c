"""The training data: token shards, the order of their samples, and readers of other formats."""
