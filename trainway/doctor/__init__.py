"""Ask a deployed platform and this machine whether all is well. Nothing is changed."""
