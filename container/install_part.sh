#!/bin/bash
# Installs the packages of a list whose names match: install_part.sh LIST PATTERN. LIST is a file of
# /opt/trainway/requirements without .txt, and PATTERN a regular expression of awk.
#
# A node fetches and unpacks layers side by side, so several layers of one size are on it sooner than a large one.
set -euo pipefail

part=$(mktemp)
awk -v wanted="$2" '/^[^# ]/ {chosen = ($0 ~ wanted)} chosen' "/opt/trainway/requirements/$1.txt" >"$part"
[[ ! -s "$part" ]] || pip install --no-deps --require-hashes --requirement "$part"
rm "$part"
