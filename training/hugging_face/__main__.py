"""Weights to and from the format of Hugging Face's transformers:

    python -m training.hugging_face export --checkpoint s3:/checkpoints/llama --data s3:/corpus/web --out llama-hf
    python -m training.hugging_face import --from Llama-3.1-8B --out fsx:/models/llama-3.1-8b

One process, without a GPU, whatever layout the job has or had. Locations are those of a job file. A mistake exits with
status 2 and one message.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist
import yaml
from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

from training.config import LOCATION_FORMS
from training.errors import UserError
from training.hosts.locations import resolve
from training.hugging_face.configuration import job_section
from training.hugging_face.exporting import DTYPES, FILE_BYTES, export
from training.hugging_face.importing import import_


def main() -> None:
    """Convert weights from or to the layout of transformers, by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="training.hugging_face", description="Exchange weights with transformers.")
    commands = parser.add_subparsers(dest="command", required=True)
    out = commands.add_parser("export", help="a checkpoint as a directory that transformers loads")
    out.add_argument(
        "--checkpoint",
        required=True,
        metavar="LOCATION[/step-…]",
        help=f"checkpoints of a job, of which the newest is taken, or one of them: {LOCATION_FORMS}",
    )
    out.add_argument("--data", required=True, metavar="LOCATION", help="data.train of that job, for the tokenizer")
    out.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the model goes")
    out.add_argument(
        "--dtype",
        choices=list(DTYPES),
        help="type of the exported weights (default: the type of the weights that the run started from, or bf16)",
    )
    out.add_argument(
        "--file-bytes", type=int, default=FILE_BYTES, help="a file ends before it is longer (default: %(default)s)"
    )
    into = commands.add_parser("import", help="such a directory as weights that a job starts from")
    into.add_argument("--from", type=Path, required=True, metavar="DIR", dest="directory", help="the model")
    into.add_argument("--out", required=True, metavar="LOCATION", help=f"where the checkpoint goes: {LOCATION_FORMS}")
    arguments = parser.parse_args()
    try:
        with one_process():
            if arguments.command == "export":
                checkpoint, data = resolve(arguments.checkpoint), resolve(arguments.data)
                export(checkpoint, data, arguments.out, arguments.dtype, arguments.file_bytes)
            else:
                shape = import_(arguments.directory, resolve(arguments.out))
                section = job_section(shape) | {"checkpoint": {"start_from": arguments.out}}
                print("# For the job file, with data that was prepared with this model's tokenizer.json:")
                print(yaml.safe_dump(section, sort_keys=False, default_flow_style=None), end="")
    except UserError as error:
        print(f"{arguments.command}: {error}", file=sys.stderr)
        sys.exit(2)


@contextmanager
def one_process() -> Iterator[None]:
    """The process group of this process alone: what reads and writes checkpoints is made for ranks."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
