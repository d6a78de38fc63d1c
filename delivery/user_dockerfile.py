"""Prints a Dockerfile of the user's whose end verifies the image and lists its packages.

user_dockerfile.py FILE ARGUMENTS: ARGUMENTS is the JSON object that the deploy writes, container/Dockerfile's arguments
by name. The build context `trainway` has both scripts. The versions are literals, so that no argument of the user's
takes their place.
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
SCRIPTS = "/tmp/trainway"
VERIFY, BILL = "verify_image.py", "bill_of_materials.py"
LIST = "/opt/trainway/sbom.spdx.json"


def verified(dockerfile: str, arguments: Mapping[str, str]) -> str:
    """Return the Dockerfile with a build step at its end that fails if the image lacks what it had before.

    A further step writes the list of the image's packages. The image gets the working directory of the training image
    back.
    """
    options = [word for option, name in OPTIONS.items() for word in (option, arguments.get(name, ""))]
    verify = _run(VERIFY, [arguments["VARIANT"], "--added", *options])
    # The list has the date of the image, whatever ARG the Dockerfile has.
    date = f"SOURCE_DATE_EPOCH={arguments['SOURCE_DATE_EPOCH']}"
    bill = _run(BILL, [LIST, arguments["BASE_IMAGE"]], date)
    return f"{dockerfile.rstrip()}\n\nUSER 0:0\nWORKDIR {DIRECTORY}\n{verify}\n{bill}\n"


def _run(script: str, words: list[str], *variables: str) -> str:
    """Return the instruction that runs a script of the build context `trainway`."""
    command = json.dumps([*(["env", *variables] if variables else []), "python", f"{SCRIPTS}/{script}", *words])
    return f"RUN --mount=type=bind,from=trainway,source={script},target={SCRIPTS}/{script} {command}"


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    print(verified(text, json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))), end="")
