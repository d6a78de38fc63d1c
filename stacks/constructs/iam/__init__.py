"""Roles: what they may do, who may assume them, and which findings about them are accepted."""
