"""Lower precisions of matrix products, each applied to a plain model from outside, and the loss scale of fp16."""
