"""Trainway: a distributed-training platform on AWS from one file, and the training job that runs on it."""

# The one place of the version. pyproject.toml, which is a part of the training image, reads it here, so that a new
# version alone does not build the image again.
__version__ = "0.1.0"
