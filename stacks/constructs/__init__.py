"""The capabilities that stacks consist of, by what they are about. No module here knows a stack."""
