"""Roles: their permissions, their trust policies, and accepted findings about them."""
