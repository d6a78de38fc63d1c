"""The account: names, tags, ARNs, budgets, and secrets."""
