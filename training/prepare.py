"""Turn text into a tokenizer and token shards:

    python -m training.prepare --corpus python-stdlib --vocabulary 4096 --out fsx:/corpus/python-stdlib
    python -m training.prepare --text /fsx/raw/web --tokenizer llama-3/tokenizer.json --out s3:/corpus/web
    python -m training.prepare --add-checksums --out fsx:/corpus/web

The same text and options give the same files, byte for byte, for every number of ranks. A text is identified by the
names and lengths of its files. Each rank of a job (RANK and WORLD_SIZE, as torchrun sets them) makes shards of its own.
It waits only for rank 0's tokenizer. The last rank to finish writes the index. A restart after an interruption verifies
the finished shards and continues from there. A restart on finished data only verifies it.

Each shard has a file of checksums beside it, by which a job verifies what it reads. `--add-checksums` writes these
files for data that has none.
"""

import argparse
import hashlib
import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from tokenizers import Tokenizer

from training.config import LOCATION_FORMS
from training.data import corpus, shards
from training.data.checksum_writer import add_checksums, write_checksums
from training.data.corpus import Corpus, Piece
from training.data.foreign import TokenArray, foreign_tokens, read_tokens
from training.data.shards import File, Index, Shard
from training.data.tokenizer import SMALLEST_VOCABULARY, end_of_text, load_tokenizer, train_tokenizer, vocabulary_of
from training.errors import UserError
from training.hosts import location_files
from training.hosts.locations import resolve
from training.observe.progress import ProgressLine

TOKENIZER = "tokenizer.json"
UNFINISHED = "index.unfinished.json"
SHARD_BYTES = 2**29
# More text than this improves a tokenizer little.
TOKENIZER_BYTES = 2**30
DOCUMENTS_AT_ONCE = 256
SECONDS_BETWEEN_LOOKS = 2.0


class Worker(NamedTuple):
    """The rank of a worker, and the number of workers. Each worker prepares its share of the shards."""

    rank: int
    world_size: int


ALONE = Worker(rank=0, world_size=1)


class _Made(BaseModel):
    """A finished part of the text. Its record lies beside its shard until the index is written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: str
    shard: Shard | None
    """None if the part has no documents."""


def main() -> None:
    """Prepare token shards from text, by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="training.prepare", description="Turn text into token shards.")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--corpus", choices=["python-stdlib"], help="text that is on this machine already")
    text.add_argument("--text", type=Path, metavar="DIR", help="directory of JSONL, Parquet, or text files")
    text.add_argument("--tokens", type=Path, metavar="PATH", help="MDS directory, or Megatron-LM files without suffix")
    text.add_argument("--add-checksums", action="store_true", help="add block checksums to the data at --out")
    parser.add_argument("--out", required=True, metavar="LOCATION", help=f"where the data goes: {LOCATION_FORMS}")
    tokenizer = parser.add_mutually_exclusive_group()
    tokenizer.add_argument("--vocabulary", type=int, default=32768, help="tokens to learn (default: %(default)s)")
    tokenizer.add_argument("--tokenizer", type=Path, metavar="FILE", help="a tokenizer.json, instead of learning one")
    parser.add_argument("--end-of-text", metavar="TOKEN", help="that tokenizer's token after every document")
    parser.add_argument("--key", default="text", help="key or column of the text (default: %(default)s)")
    parser.add_argument("--limit-bytes", type=int, help="use at most this much of the text")
    parser.add_argument(
        "--shard-bytes", type=int, default=SHARD_BYTES, help="a shard ends after so much text (default: %(default)s)"
    )
    arguments = parser.parse_args()
    try:
        if arguments.add_checksums:
            _add_checksums(resolve(arguments.out))
            return
        if arguments.tokens:
            if not arguments.tokenizer:
                raise UserError("--tokens needs --tokenizer: the tokenizer.json that made them")
            source = foreign_tokens(arguments.tokens)
        elif arguments.corpus:
            source = corpus.python_standard_library(arguments.limit_bytes)
        else:
            source = corpus.text_directory(arguments.text, arguments.limit_bytes, arguments.key)
        prepare(
            source,
            resolve(arguments.out),
            arguments.vocabulary,
            arguments.shard_bytes,
            arguments.tokenizer,
            arguments.end_of_text,
            Worker(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))),
        )
    except UserError as error:
        print(f"prepare: {error}", file=sys.stderr)
        sys.exit(2)


def _add_checksums(location: str) -> None:
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            f"--add-checksums: {os.environ['WORLD_SIZE']} ranks would write the same index (WORLD_SIZE in the "
            "environment). Run the command in one process, without torchrun"
        )
    index = add_checksums(location)
    print(f"{location}: the {len(index.shards)} shards have checksums of their blocks", file=sys.stderr)


def prepare(
    source: Corpus,
    location: str,
    vocabulary: int,
    shard_bytes: int = SHARD_BYTES,
    tokenizer: Path | None = None,
    end: str | None = None,
    worker: Worker = ALONE,
) -> Index | None:
    """Write tokenizer, shards, and index to a resolved location.

    Returns the index, or None if other workers have not finished. Without a `tokenizer`, learn one of `vocabulary`
    tokens from the text. `end` names the token of `tokenizer` after every document. `worker` is this process.

    Raises:
        UserError: the options do not fit the text, or the location holds other data.
    """
    if vocabulary < SMALLEST_VOCABULARY:
        raise UserError(
            f"--vocabulary {vocabulary} is too small: the bytes and the end of text need {SMALLEST_VOCABULARY}"
        )
    parts = _parts(source.pieces, shard_bytes)
    recipe = _recipe(source, parts, tokenizer.read_bytes() if tokenizer and tokenizer.is_file() else b"", vocabulary)
    complete = _index(location, shards.INDEX)
    if complete and complete.recipe != recipe:
        raise UserError(
            f"{location} holds data that was made from other text or with other options. "
            "Choose another --out, or delete it first"
        )
    started = complete or _index(location, UNFINISHED)
    if started is None or started.recipe != recipe or not _is_there(location, started.tokenizer):
        if worker.rank == 0:
            started = _start(source, location, vocabulary, tokenizer, end, recipe)
        else:
            started = _wait_for_start(location, recipe)

    finished = {shard.name: shard for shard in started.shards}
    own = range(worker.rank, len(parts), worker.world_size)
    model = Tokenizer.from_str((location_files.read(location_files.join(location, TOKENIZER)) or b"").decode())
    progress = ProgressLine("shards", sum(piece.size for part in own for piece in parts[part]), "bytes")
    done = made = 0
    for part in own:
        was_made = _made(location, part, recipe, finished)
        if was_made is None or (was_made.shard and not _is_whole(location, was_made.shard)):
            documents = _documents(source, parts[part], model, started, progress, done)
            was_made = _Made(recipe=recipe, shard=_write_shard(location, part, started, documents))
            location_files.write(
                location_files.join(location, _record(part)), was_made.model_dump_json(indent=2).encode()
            )
            made += 1
        done += sum(piece.size for piece in parts[part])
        progress.update(done)
    if complete and not made:
        print(f"{location} is complete and verified: {complete.tokens:,} tokens", file=sys.stderr)
        return complete
    progress.finish(f"{made} of {len(own)} made, the others verified")
    return _finish(location, started, len(parts), finished)


def _parts(pieces: list[Piece], shard_bytes: int) -> list[list[Piece]]:
    """Return the pieces of each shard: neighbors whose sizes add up to `shard_bytes`."""
    parts: list[list[Piece]] = [[]]
    taken = 0
    for piece in pieces:
        if taken >= shard_bytes:
            parts.append([])
            taken = 0
        parts[-1].append(piece)
        taken += piece.size
    return parts


def _start(source: Corpus, location: str, vocabulary: int, given: Path | None, end: str | None, recipe: str) -> Index:
    """Write the tokenizer, and an index without shards."""
    if given:
        tokenizer, content = load_tokenizer(given), given.read_bytes()
    else:
        progress = ProgressLine("tokenizer", min(TOKENIZER_BYTES, sum(piece.size for piece in source.pieces)), "bytes")
        tokenizer = train_tokenizer(_beginning(source, progress), vocabulary)
        content = tokenizer.to_str().encode()
        progress.finish(f"{tokenizer.get_vocab_size():,} tokens learned")
    tokens = vocabulary_of(tokenizer)
    index = Index(
        dtype="uint16" if tokens <= 2**16 else "uint32",
        vocabulary=tokens,
        end_of_text=end_of_text(tokenizer, end),
        tokenizer=File(name=TOKENIZER, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()),
        recipe=recipe,
        source=source.source,
        shards=(),
    )
    location_files.write(location_files.join(location, TOKENIZER), content)
    location_files.write(location_files.join(location, UNFINISHED), index.model_dump_json(indent=2).encode())
    return index


def _wait_for_start(location: str, recipe: str) -> Index:
    """Wait for the tokenizer, and return the index that rank 0 writes after it."""
    print("waiting for rank 0's tokenizer", file=sys.stderr)
    while True:
        for name in (UNFINISHED, shards.INDEX):
            index = _index(location, name)
            if index and index.recipe == recipe:
                return index
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _beginning(source: Corpus, progress: ProgressLine) -> Iterator[str]:
    """Yield the documents from which the tokenizer learns."""
    done = 0
    for piece in source.pieces:
        if done >= TOKENIZER_BYTES:
            return
        yield from corpus.read(piece, source.key)
        done += piece.size
        progress.update(done)


def _documents(
    source: Corpus, part: list[Piece], tokenizer: Tokenizer, index: Index, progress: ProgressLine, done: int
) -> Iterator[TokenArray]:
    """Yield the tokens of every document of a part, each with the end-of-text token after it."""
    for piece in part:
        if source.tokens:
            yield from _checked(read_tokens(piece, index.end_of_text), piece, index.vocabulary)
        else:
            texts = corpus.read(piece, source.key)
            while some := list(itertools.islice(texts, DOCUMENTS_AT_ONCE)):
                # Leave out the special tokens that the tokenizer adds around a text.
                for encoding in tokenizer.encode_batch(some, add_special_tokens=False):
                    yield np.array([*encoding.ids, index.end_of_text], dtype=np.uint32)
        done += piece.size
        progress.update(done)


def _checked(documents: Iterable[TokenArray], piece: Piece, vocabulary: int) -> Iterator[TokenArray]:
    for tokens in documents:
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
            raise UserError(
                f"{piece.path}: has the token {int(tokens.max())}, but the tokenizer's are below {vocabulary}. "
                "Give the --tokenizer that made them"
            )
        yield tokens


def _write_shard(location: str, part: int, index: Index, documents: Iterable[TokenArray]) -> Shard | None:
    dtype = np.dtype(index.dtype).newbyteorder("<")
    arrays = [tokens.astype(dtype) for tokens in documents]
    if not arrays:
        return None
    content = np.concatenate(arrays).tobytes()
    name = f"train-{part:05d}.bin"
    location_files.write(location_files.join(location, name), content)
    return Shard(
        name=name,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        tokens=len(content) // dtype.itemsize,
        documents=len(arrays),
        checksums=write_checksums(location, name, content),
    )


def _finish(location: str, started: Index, parts: int, finished: dict[str, Shard]) -> Index | None:
    """Write the index if every part is finished. The last rank does this. If two ranks do, they write the same."""
    made = [_made(location, part, started.recipe, finished) for part in range(parts)]
    index = started.model_copy(update={"shards": tuple(part.shard for part in made if part and part.shard)})
    if None in made:
        return _index(location, shards.INDEX)  # another may have written it and tidied up
    if not index.shards:
        raise UserError("the text has no documents")
    shards.write_index(location, index)
    location_files.delete(location, [UNFINISHED, *(_record(part) for part in range(parts))])
    print(f"{index.tokens:,} tokens in {len(index.shards)} files at {location}", file=sys.stderr)
    return index


def _made(location: str, part: int, recipe: str, finished: dict[str, Shard]) -> _Made | None:
    """Return the record of a part that was made by this recipe, from its own file or from an index."""
    content = location_files.read(location_files.join(location, _record(part)))
    try:
        made = _Made.model_validate_json(content) if content else None
    except ValidationError:
        made = None
    if made and made.recipe == recipe:
        return made
    shard = finished.get(f"train-{part:05d}.bin")
    return _Made(recipe=recipe, shard=shard) if shard else None


def _record(part: int) -> str:
    return f"train-{part:05d}.made.json"


def _recipe(source: Corpus, parts: list[list[Piece]], tokenizer: bytes, vocabulary: int) -> str:
    """Return a digest of everything that determines the result."""
    learned = "" if tokenizer else str(vocabulary)
    digest = hashlib.sha256(f"tokenizers {version('tokenizers')} {learned} {source.key}".encode() + tokenizer)
    for part in parts:
        digest.update("\n".join(["", *(f"{piece.name} {piece.size} {piece.first}" for piece in part)]).encode())
    return digest.hexdigest()


def _index(location: str, name: str) -> Index | None:
    content = location_files.read(location_files.join(location, name))
    try:
        return Index.model_validate_json(content) if content else None
    except ValidationError as error:
        raise UserError(f"{location}/{name} is not an index of token shards. Choose another --out") from error


def _is_whole(location: str, shard: Shard) -> bool:
    return _is_there(location, shard) and (shard.checksums is None or _is_there(location, shard.checksums))


def _is_there(location: str, file: File) -> bool:
    return location_files.holds(location_files.join(location, file.name), file.bytes, file.sha256)


if __name__ == "__main__":
    main()
