"""Every way to distribute the model over ranks, one file each, applied to the plain model from outside.

Start with `apply.py`, which applies them in order. `mesh.py` defines the meshes of ranks.
"""
