"""What serves some users, and without which the rest works: docs/scope.md says what each extension adds.

The commands alone import extensions, and no extension imports another one. An extension may import everything else.
"""
