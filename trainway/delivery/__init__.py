"""Running and watching the delivery pipelines of a deployed platform, and the images that they build."""
