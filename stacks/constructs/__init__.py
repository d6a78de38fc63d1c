"""The capabilities that stacks consist of, by topic. No module here depends on a stack."""
