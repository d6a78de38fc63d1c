"""Teams: their data, directories, people, and guarantees."""
