"""Cost: what AWS bills for a platform."""
