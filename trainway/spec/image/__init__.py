"""The training image: what it is built with, and the drivers that it requires."""
