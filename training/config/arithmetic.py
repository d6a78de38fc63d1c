"""Count the arithmetic of a token, without torch."""

from training.config.presets import Shape


def flop_per_token(shape: Shape, vocabulary: int, sequence_length: int, causal: bool = False) -> float:
    """Return the FLOP to train on one token, by one of the two published formulas.

    6 (N - N_embedding) + 12 x layers x width of attention x sequence_length is PaLM's formula (arXiv 2204.02311,
    appendix B). It counts 2 for the forward and 4 for the backward pass, for each multiplied weight and for the scores
    and values of attention, as if every token attended to the whole sequence. `causal` counts what a causal kernel has
    to compute, half of the scores and values. Neither formula counts what activation checkpointing recomputes. The
    look-up of an embedding multiplies nothing. The output projection does, even if it is the same matrix. Of the
    experts, only those that process a token count.
    """
    attention = shape.hidden * shape.head_width * (2 * shape.heads + 2 * shape.key_value_heads)
    feed_forward = 3 * shape.hidden * shape.feed_forward
    if shape.experts:
        feed_forward = feed_forward * shape.experts_per_token + shape.hidden * shape.experts
    norms = 2 * shape.hidden
    multiplied = shape.layers * (attention + feed_forward + norms) + shape.hidden + shape.hidden * vocabulary
    seen: float = min(shape.sliding_window or sequence_length, sequence_length)
    if causal:
        seen -= seen * seen / (2 * sequence_length)  # tokens at the beginning of a sample attend to fewer tokens
    return 6.0 * multiplied + 12.0 * shape.layers * shape.heads * shape.head_width * seen
