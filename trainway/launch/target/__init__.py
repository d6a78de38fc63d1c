"""What every target of a launch provides, and which targets there are."""
