"""The sections of the platform file: one frozen model a section, each key described once."""
