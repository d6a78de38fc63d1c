"""The charts of delivery/mirror.yaml, as Helm renders them with the values of each platform."""
