"""The deployment: what a deploy creates, how long it takes, and what no later deploy can change."""
