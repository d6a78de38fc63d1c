"""Layouts of a training job that fit on a GPU, and how fast they are there."""
