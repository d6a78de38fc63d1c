"""The tokenizer of a corpus: trained on it, or brought along as a `tokenizer.json` of the tokenizers library."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from training.errors import UserError

END_OF_TEXT = "<|end_of_text|>"
# What Llama 3, GPT-2, Llama 2 and Qwen call it, where none is named: the special tokens of their `tokenizer.json`.
KNOWN_ENDS = (END_OF_TEXT, "<|endoftext|>", "</s>", "<eos>")
SMALLEST_VOCABULARY = len(pre_tokenizers.ByteLevel.alphabet()) + 1


def train_tokenizer(documents: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE of at most `vocabulary` tokens, the same for the same documents.

    It has fewer where the text has too few pairs left to merge.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file.

    Raises:
        UserError: there is none, or it is not one.
    """
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--tokenizer {path}: cannot be read: {error}") from error
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"--tokenizer {path}: is not a tokenizer of the tokenizers library: {error}") from error


def end_of_text(tokenizer: Tokenizer, name: str | None) -> int:
    """The token after every document.

    Raises:
        UserError: the tokenizer does not have it, or it is not known which one it is.
    """
    for known in (name,) if name else KNOWN_ENDS:
        number = tokenizer.token_to_id(known)
        if number is not None:
            return int(number)
    tried = name or ", ".join(KNOWN_ENDS)
    raise UserError(f"the tokenizer has no token {tried}; name the one that ends a document with --end-of-text")


def vocabulary_of(tokenizer: Tokenizer) -> int:
    """One more than the largest token, which is what a model needs."""
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
