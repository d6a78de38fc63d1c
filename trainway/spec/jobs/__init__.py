"""Jobs: what a job gets of the platform."""
