"""The commands of `trainway`, a module a task. What takes time to import is imported inside the command."""
