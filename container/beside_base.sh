#!/bin/bash
# Makes the environment of a job whose base image has PyTorch of its own: beside_base.sh PYPROJECT DIRECTORY. The Python packages
# of the base stay as they are, and what else the job requires is chosen beside them, in DIRECTORY.
set -euo pipefail

pyproject=$1 directory=$2
python=$(command -v python3)
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' || {
  echo "image.base_packages: the base image has no PyTorch that its python3, $python, finds. Name a base with PyTorch as" \
    "image.base, or remove image.base_packages" >&2
  exit 1
}
"$python" -m venv --system-site-packages "$directory"
# A Python of the base that is itself a virtual environment has its packages where another environment does not look.
there=$("$directory/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -c 'import site, sysconfig
print(*dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]), sep="\n")' \
  >"$there/base-image.pth"
export PATH=$directory/bin:$PATH
work=$(mktemp -d)
python -c 'import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"]["training"], sep="\n")' "$pyproject" \
  >"$work/training.txt"
pip list --format=freeze >"$work/constraints.txt"
pip install --constraint "$work/constraints.txt" --requirement "$work/training.txt" || {
  echo "image.base_packages: what the job requires does not go with the Python packages of the base image. pip says above which" >&2
  exit 1
}
pip list --format=freeze >"$work/now.txt"
if grep --line-regexp --fixed-strings --invert-match --file="$work/now.txt" "$work/constraints.txt"; then
  echo "image.base_packages: pip replaced these packages of the base image" >&2
  exit 1
fi
# The base's torchrun starts workers by the base's Python, which does not find the job's packages.
printf '#!%s\nimport sys\n\nfrom torch.distributed.run import main\n\nsys.exit(main())\n' "$directory/bin/python" \
  >"$directory/bin/torchrun"
chmod 755 "$directory/bin/torchrun"
rm -rf "$work"
