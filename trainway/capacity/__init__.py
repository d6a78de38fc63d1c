"""Capacity that is to be had: where, when, and for how much; buying it, and writing it into a platform file."""
