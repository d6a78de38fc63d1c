"""The tokenizer of a corpus: trained on it, or given as a `tokenizer.json` of the tokenizers library."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from training.errors import UserError

END_OF_TEXT = "<|end_of_text|>"
# End-of-text tokens of Llama 3, GPT-2, Llama 2, and Qwen, if none is named: special tokens of their `tokenizer.json`.
KNOWN_ENDS = (END_OF_TEXT, "<|endoftext|>", "</s>", "<eos>")
SMALLEST_VOCABULARY = len(pre_tokenizers.ByteLevel.alphabet()) + 1


def train_tokenizer(documents: Iterable[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE of at most `vocabulary` tokens. The same documents give the same tokenizer.

    It has fewer tokens if the text has too few pairs left to merge.
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
    """Return the tokenizer of a file.

    Raises:
        UserError: the file does not exist, or is not a tokenizer.
    """
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--tokenizer {path}: cannot be read: {error}") from error
    except Exception as error:  # the library raises nothing more specific
        raise UserError(f"--tokenizer {path}: is not a tokenizer of the tokenizers library: {error}") from error


def end_of_text(tokenizer: Tokenizer, name: str | None) -> int:
    """Return the number of the token that follows every document: `name`, or by default one of KNOWN_ENDS.

    Raises:
        UserError: the tokenizer has no such token.
    """
    for known in (name,) if name else KNOWN_ENDS:
        number = tokenizer.token_to_id(known)
        if number is not None:
            return int(number)
    tried = name or ", ".join(KNOWN_ENDS)
    raise UserError(f"the tokenizer has no token {tried}; name the one that ends a document with --end-of-text")


def vocabulary_of(tokenizer: Tokenizer) -> int:
    """Return the number of tokens that a model needs, which is the largest token plus one."""
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
