"""Write the parts of pages that other files of the repository decide. `make generated` runs all generators."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
