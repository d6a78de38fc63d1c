"""Templates: their structure, their parameters, and their intrinsic functions."""
