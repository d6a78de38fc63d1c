"""The host that the job runs on: file locations, storage, and stop signals."""
