"""Slurm: accounts, users, and nodes of a Slurm cluster."""
