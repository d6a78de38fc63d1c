"""The one exception for what a user can put right."""


class UserError(Exception):
    """Something outside the code is wrong. The message says what, where, why, and what would be right.

    It is printed without a traceback, and the process exits with status 2.
    """
