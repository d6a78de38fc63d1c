"""The emulated CloudFormation: its API, its stacks, and how a stack becomes what its template says."""
