"""The decoder as plain PyTorch, without parallelism: its sizes, its layers, its experts, and its loss."""
