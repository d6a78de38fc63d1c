"""What platforms and runs cost: as documents, by AWS's live prices, and what would cost less."""
