"""The training job: pretraining of a Llama-class decoder on PyTorch's own distributed primitives.

Start with `train.py`, which reads from top to bottom. Every other file holds one idea that `train.py` uses.
"""
