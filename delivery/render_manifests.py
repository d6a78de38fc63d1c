"""Copy a directory, and replace `${TRAINWAY_…}` from the environment: `render_manifests.py FROM TO`.

The directory contains Kubernetes manifests or the parameters of HyperPod nodes. The program replaces only names that
start with TRAINWAY_, so that a `$` in a container's command stays unchanged. A name that is not set or that is
misspelled is an error. The files are JSON; a value is escaped for the string that it stands in. Those in `objects` are
all labeled with a checksum of them together, which is printed: what carries another one was applied by an earlier
deploy, and not by this one.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

LABEL = "trainway.dev/revision"
PLACEHOLDER = re.compile(r"\$\{(TRAINWAY_[^}\"]*)\}?")


def render(text: str, environment: Mapping[str, str]) -> str:
    """Returns `text` with every placeholder replaced; raises `KeyError` with the first name that is not set."""
    return PLACEHOLDER.sub(lambda found: json.dumps(environment[found[1]])[1:-1], text)


def main() -> int:
    source, destination = map(Path, sys.argv[1:])
    if not source.is_dir():
        print(f"{source}: no such directory of manifests", file=sys.stderr)
        return 2
    files = {}
    for path in sorted(path for path in source.rglob("*.json") if path.is_file()):
        try:
            files[path.relative_to(source)] = json.loads(render(path.read_text(), os.environ))
        except KeyError as missing:
            print(f"{path}: {missing.args[0]} is not set in the environment", file=sys.stderr)
            return 2
        except json.JSONDecodeError as error:
            print(f"{path}: not JSON: {error}", file=sys.stderr)
            return 2
    objects = [manifest for path, manifest in files.items() if path.parts[0] == "objects"]
    revision = hashlib.sha256(json.dumps(objects, sort_keys=True).encode()).hexdigest()[:16]
    for manifest in objects:
        manifest.setdefault("metadata", {}).setdefault("labels", {})[LABEL] = revision
    for path, manifest in files.items():
        target = destination / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(manifest, indent=2))
    print(revision)
    return 0


if __name__ == "__main__":
    sys.exit(main())
