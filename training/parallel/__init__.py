"""Every way to spread the model over ranks, one file each, applied to the plain model from outside.

Start with `apply.py`, which puts them in their order; `mesh.py` says which rank is where.
"""
