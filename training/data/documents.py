"""Find where the documents of a sample begin."""

import numpy as np
import torch
from torch import Tensor


def document_starts(tokens: Tensor, end_of_text: int) -> Tensor:
    """Return the positions at which the documents of each sample begin: int32 [samples, documents].

    `tokens` are in host memory: [samples, sequence]. The token that ends a document belongs to that document, because
    the document's last word predicts it. Rows end with the sequence length, which begins nothing. There are as many
    columns as a power of two, so that the shape seldom changes.
    """
    samples, length = tokens.shape
    rows, ends = np.nonzero(tokens.numpy()[:, :-1] == end_of_text)
    counts = np.bincount(rows, minlength=samples)
    columns = 1 << int(counts.max()).bit_length()
    starts = np.full((samples, columns), length, dtype=np.int32)
    starts[:, 0] = 0
    before = np.cumsum(counts) - counts
    starts[rows, np.arange(len(rows)) - before[rows] + 1] = ends + 1
    return torch.from_numpy(starts)
