#!/usr/bin/env bash
# Slurm's health check, which runs regularly on nodes with and without jobs.
exec python3 /opt/trainway/slurm/node_checks.py health
