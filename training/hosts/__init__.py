"""What the job needs of the host that it runs on: file locations, storage, and stop signals."""
