"""What AWS publishes of resource types: schemas, and the records that are kept of resources by them alone."""
