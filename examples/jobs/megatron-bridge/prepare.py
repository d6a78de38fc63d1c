"""Tokenize JSON lines for Megatron, one file after another: each MPI rank takes its own part of the files.

Writes NAME.bin and NAME.idx for each NAME.jsonl, whose lines have the text in the key `text`.
"""

import argparse
import json
import os
from pathlib import Path

import numpy
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from tokenizers import Tokenizer


def main() -> None:
    """Tokenize this rank's files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", required=True, help="path of tokenizer.json")
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()

    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    tokenizer = Tokenizer.from_file(asked.tokenizer)
    for file in sorted(asked.data.glob("*.jsonl"))[rank::ranks]:
        # The index is written last, so a file that has one is done, and a resumed run leaves it out.
        index = asked.output / f"{file.stem}.idx"
        if index.exists():
            continue
        builder = IndexedDatasetBuilder(str(asked.output / f"{file.stem}.bin"), dtype=numpy.int32)
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                tokens = tokenizer.encode(json.loads(line)["text"]).ids
                builder.add_document(numpy.array(tokens, dtype=numpy.int32), [len(tokens)])
        builder.finalize(str(index))
        print(f"rank {rank}: {file.name}", flush=True)


if __name__ == "__main__":
    main()
