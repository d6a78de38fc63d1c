"""The capabilities that stacks are made of."""
