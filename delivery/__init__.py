"""What the delivery pipelines run, and the content hash of an image that the deploy shares with them."""
