"""The CDK app's stacks: one module per stack, in layers. `constructs` holds the capabilities that stacks consist of."""
