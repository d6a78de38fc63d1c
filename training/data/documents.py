"""Number the documents that the tokens of a sample belong to."""

from torch import Tensor


def document_numbers(tokens: Tensor, end_of_text: int) -> Tensor:
    """Return the number of each token's document within its sample: int64 [batch, sequence], counted from 0.

    The token that ends a document belongs to that document, because the document's last word predicts it.
    """
    ends = tokens == end_of_text
    return ends.cumsum(1) - ends.long()
