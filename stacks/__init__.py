"""What is deployed: one module a stack, and in `constructs` one module a capability."""
