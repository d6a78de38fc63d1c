"""What a deployed platform says of itself, and how a job file names its places."""
