"""The fixtures of training jobs, and those of faults at random moments."""

from tests.faults.moments import drawn
from tests.training.conftest import corpus_directory, job, launch, s3, s3_endpoint, torchrun, untouched

__all__ = ["corpus_directory", "drawn", "job", "launch", "s3", "s3_endpoint", "torchrun", "untouched"]
