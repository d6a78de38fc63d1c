"""The emulated CloudFormation: its API, its stacks, and the deployment of a template."""
