"""The network: Regions, subnets, their addresses, and VPC endpoints."""
