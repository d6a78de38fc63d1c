"""The VPC with its endpoints, flow logs, and security groups."""
