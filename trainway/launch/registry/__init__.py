"""The record of every run on a platform, in the platform's bucket, where each member of the run's team finds it."""
