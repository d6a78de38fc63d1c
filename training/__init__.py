"""The job: pretraining of a Llama-class decoder on PyTorch's own distributed primitives.

Start with `train.py`, which reads from top to bottom; every other file holds one idea that it uses.
"""
