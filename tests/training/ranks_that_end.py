"""The agent of the training job with ranks that end at once, each with its status in STATUSES."""

import os

from training import elastic


def end(*_: str) -> None:
    """End without a word, as native code does that gives up."""
    os._exit(int(os.environ["STATUSES"].split()[int(os.environ["LOCAL_RANK"])]))


if __name__ == "__main__":
    elastic.run_rank = end
    elastic.main()
