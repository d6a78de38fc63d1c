"""AWS's published resource schemas, and records of resources that only follow their schema."""
