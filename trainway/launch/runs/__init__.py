"""The runs that were started from here: their directories, states, logs, and outputs."""
