"""Ask an account, before a deploy, for all that would make the deploy fail. Nothing is changed."""
