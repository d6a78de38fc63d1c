"""What teams used in a month, by the records and the states of their runs: `trainway report --month`."""
