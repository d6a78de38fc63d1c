"""The command by which a version enters the repository. It asks the publishers' indexes, and needs no credentials."""
