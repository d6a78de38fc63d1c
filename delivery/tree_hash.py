"""Print the hash of a directory tree as Nix computes it: `tree_hash.py DIRECTORY`.

The hash is the SHA-256 of the Nix archive (NAR) of the tree: names, contents, the executable bit and links, without
times and owners. nixpkgs states this hash for the sources that it fetches.
https://nix.dev/manual/nix/2.28/protocols/nix-archive (read 2026-11-22)
"""

import base64
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def tree_hash(directory: Path) -> str:
    """Return the hash as `sha256-` and 44 characters of Base64."""
    total = hashlib.sha256()
    for word in (b"nix-archive-1", *_node(directory)):
        total.update(len(word).to_bytes(8, "little") + word + bytes(-len(word) % 8))
    return f"sha256-{base64.b64encode(total.digest()).decode()}"


def _node(path: Path) -> Iterator[bytes]:
    yield from (b"(", b"type")
    if path.is_symlink():
        yield from (b"symlink", b"target", os.fsencode(path.readlink()))
    elif path.is_dir():
        yield b"directory"
        for child in sorted(path.iterdir(), key=lambda each: os.fsencode(each.name)):
            yield from (b"entry", b"(", b"name", os.fsencode(child.name), b"node", *_node(child), b")")
    else:
        yield b"regular"
        if path.stat().st_mode & 0o100:
            yield from (b"executable", b"")
        yield from (b"contents", path.read_bytes())
    yield b")"


if __name__ == "__main__":
    print(tree_hash(Path(sys.argv[1])))
