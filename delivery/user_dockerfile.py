"""Prints a Dockerfile of the user's with the verification of the image at its end: user_dockerfile.py FILE ARGUMENTS.

ARGUMENTS is the JSON object that the deploy writes: container/Dockerfile's arguments by name. The build context
`trainway` has verify_image.py. The versions are literals, so that no argument of the user's takes their place.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

# The options of container/verify_image.py, and the arguments that have their values.
OPTIONS = {
    "--layout": "LAYOUT",
    "--libfabric": "LIBFABRIC_VERSION",
    "--aws-ofi-nccl": "AWS_OFI_NCCL_VERSION",
    "--cuda": "CUDA_VERSION",
    "--nccl": "NCCL_VERSION",
    "--pytorch": "PYTORCH_VERSION",
    "--transformer-engine": "TRANSFORMER_ENGINE_VERSION",
    "--nemo": "NEMO_VERSION",
    "--flash-attention": "FLASH_ATTENTION_VERSION",
    "--hyperpod-elastic-agent": "HYPERPOD_ELASTIC_AGENT_VERSION",
}
# The working directory of container/Dockerfile.
DIRECTORY = "/home/trainer"
SCRIPT = "/tmp/trainway/verify_image.py"


def verified(dockerfile: str, arguments: Mapping[str, str]) -> str:
    """Return the Dockerfile with a build step at its end that fails if the image lacks what it had before.

    The image gets the working directory of the training image back.
    """
    options = [word for option, name in OPTIONS.items() for word in (option, arguments.get(name, ""))]
    command = json.dumps(["python", SCRIPT, arguments["VARIANT"], "--added", *options])
    mount = "--mount=type=bind,from=trainway,source=verify_image.py,target=" + SCRIPT
    return f"{dockerfile.rstrip()}\n\nUSER 0:0\nWORKDIR {DIRECTORY}\nRUN {mount} {command}\n"


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    print(verified(text, json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))), end="")
