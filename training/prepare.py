"""Turns text into a tokenizer and token shards:

    python -m training.prepare --corpus python-stdlib --vocabulary 4096 --out fsx:/corpus/python-stdlib

The same text and options give the same files, byte for byte. Started again after an interruption, it verifies what
is finished and goes on from there; started again on finished data, it verifies that and does nothing.
"""

import argparse
import hashlib
import itertools
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from training import corpus, shards, storage
from training.config import LOCATION_FORMS
from training.corpus import Corpus
from training.errors import UserError
from training.locations import resolve
from training.progress import ProgressLine
from training.shards import File, Index, Shard

END_OF_TEXT = "<|end_of_text|>"
TOKENIZER = "tokenizer.json"
UNFINISHED = "index.unfinished.json"
DOCUMENTS_AT_ONCE = 64


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="training.prepare", description="Turn text into token shards.")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--corpus", choices=["python-stdlib"], help="text that is on this machine already")
    text.add_argument("--text", type=Path, metavar="DIR", help="a directory of UTF-8 text files")
    parser.add_argument("--out", required=True, metavar="LOCATION", help=f"where the data goes: {LOCATION_FORMS}")
    parser.add_argument("--vocabulary", type=int, default=32768, help="tokens of the vocabulary (default: %(default)s)")
    parser.add_argument("--limit-bytes", type=int, help="use at most this much of the text")
    parser.add_argument(
        "--shard-tokens", type=int, default=2**27, help="a shard ends after this many tokens (default: %(default)s)"
    )
    arguments = parser.parse_args()
    try:
        if arguments.corpus:
            documents = corpus.python_standard_library(arguments.limit_bytes)
        else:
            documents = corpus.text_directory(arguments.text, arguments.limit_bytes)
        prepare(documents, resolve(arguments.out), arguments.vocabulary, arguments.shard_tokens)
    except UserError as error:
        print(f"prepare: {error}", file=sys.stderr)
        sys.exit(2)


def prepare(text: Corpus, location: str, vocabulary: int, shard_tokens: int) -> Index:
    """Writes tokenizer, shards and index to a resolved location, and returns the index.

    Raises:
        UserError: the options do not fit the text, or the location holds other data.
    """
    smallest = len(pre_tokenizers.ByteLevel.alphabet()) + 1
    if vocabulary < smallest:
        raise UserError(f"--vocabulary {vocabulary} is too small: the bytes and {END_OF_TEXT} alone need {smallest}")
    if text.skipped:
        print(f"{text.skipped} files are not UTF-8 and were left out", file=sys.stderr)
    contents = [path.read_bytes().decode() for path in text.documents]
    recipe = _recipe(contents, vocabulary, shard_tokens)

    complete = _index(location, shards.INDEX)
    if complete and complete.recipe != recipe:
        raise UserError(
            f"{location} holds data that was made from other text or with other options. "
            "Choose another --out, or delete it first"
        )
    started = complete or _index(location, UNFINISHED)
    if started is None or started.recipe != recipe or not _is_there(location, started.tokenizer):
        started = _start(contents, location, vocabulary, recipe, text.source)
    verified = tuple(itertools.takewhile(lambda shard: _is_there(location, shard), started.shards))
    if complete and verified == complete.shards:
        print(f"{location} is complete and verified: {complete.tokens:,} tokens", file=sys.stderr)
        return complete
    return _finish(contents, location, started.model_copy(update={"shards": verified}), shard_tokens)


def _start(contents: list[str], location: str, vocabulary: int, recipe: str, source: str) -> Index:
    """Trains and writes the tokenizer; the index has no shards yet."""
    progress = ProgressLine("tokenizer", len(contents), "documents")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_counted(contents, progress), trainer)
    content = tokenizer.to_str().encode()
    storage.write(storage.join(location, TOKENIZER), content)
    progress.finish(f"{tokenizer.get_vocab_size():,} tokens learned from {len(contents):,} documents")
    return Index(
        dtype="uint16" if vocabulary <= 2**16 else "uint32",
        # Less than what was asked for where the text has too few pairs left to merge.
        vocabulary=tokenizer.get_vocab_size(),
        end_of_text=tokenizer.token_to_id(END_OF_TEXT),
        tokenizer=File(name=TOKENIZER, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()),
        recipe=recipe,
        source=source,
        shards=(),
    )


def _finish(contents: list[str], location: str, index: Index, shard_tokens: int) -> Index:
    """Writes the shards that the index lacks, noting each when it is there, and then the index itself."""
    tokenizer = Tokenizer.from_str((storage.read(storage.join(location, TOKENIZER)) or b"").decode())
    progress = ProgressLine("shards", len(contents), "documents")
    first = sum(shard.documents for shard in index.shards)
    pending: list[NDArray[np.uint32]] = []
    pending_tokens = 0
    for document, tokens in enumerate(_encoded(tokenizer, contents[first:], index.end_of_text), start=first + 1):
        pending.append(tokens)
        pending_tokens += len(tokens)
        progress.update(document)
        if pending_tokens >= shard_tokens or document == len(contents):
            shard = _write_shard(location, index, pending)
            index = index.model_copy(update={"shards": (*index.shards, shard)})
            storage.write(storage.join(location, UNFINISHED), index.model_dump_json(indent=2).encode())
            pending, pending_tokens = [], 0
    shards.write_index(location, index)
    storage.delete(location, [UNFINISHED])
    progress.finish(f"{index.tokens:,} tokens in {len(index.shards)} files at {location}")
    return index


def _encoded(tokenizer: Tokenizer, contents: list[str], end_of_text: int) -> Iterator[NDArray[np.uint32]]:
    """The tokens of every document, each with the end of text after it."""
    for first in range(0, len(contents), DOCUMENTS_AT_ONCE):
        for encoding in tokenizer.encode_batch(contents[first : first + DOCUMENTS_AT_ONCE]):
            yield np.array([*encoding.ids, end_of_text], dtype=np.uint32)


def _write_shard(location: str, index: Index, documents: list[NDArray[np.uint32]]) -> Shard:
    tokens = np.concatenate(documents)
    content = tokens.astype(np.dtype(index.dtype).newbyteorder("<")).tobytes()
    name = f"train-{len(index.shards):05d}.bin"
    storage.write(storage.join(location, name), content)
    return Shard(
        name=name,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        tokens=len(tokens),
        documents=len(documents),
    )


def _recipe(contents: list[str], vocabulary: int, shard_tokens: int) -> str:
    """A digest of all that decides the result."""
    digest = hashlib.sha256(f"tokenizers {version('tokenizers')} {vocabulary} {shard_tokens}".encode())
    for content in contents:
        digest.update(hashlib.sha256(content.encode()).digest())
    return digest.hexdigest()


def _index(location: str, name: str) -> Index | None:
    content = storage.read(storage.join(location, name))
    try:
        return Index.model_validate_json(content) if content else None
    except ValidationError as error:
        raise UserError(f"{location}/{name} is not an index of token shards. Choose another --out") from error


def _is_there(location: str, file: File) -> bool:
    return storage.holds(storage.join(location, file.name), file.bytes, file.sha256)


def _counted(contents: list[str], progress: ProgressLine) -> Iterator[str]:
    for document, content in enumerate(contents, start=1):
        yield content
        progress.update(document)


if __name__ == "__main__":
    main()
