"""The parts of Trainway outside this package: where they are, which packages they need, and the one that it imports."""
