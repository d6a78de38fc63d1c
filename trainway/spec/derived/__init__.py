"""Values derived from a platform file and the facts: subnets, quotas, charts, device shares, and more."""
