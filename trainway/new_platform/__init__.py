"""The first platform file of a team, from options or from answers to questions: commented, and without problems."""
