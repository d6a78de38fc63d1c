"""What a platform is: typed models, the instance catalogue, and pure functions of the two."""
