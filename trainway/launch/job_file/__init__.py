"""What a person writes: job files, the programs in them, and sweeps of both."""
