"""What is to run: a program, the nodes that it asks for, and what it is told there."""
