"""The command lines of one program in a shell script, as words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

ARRAY = re.compile(r"\b(\w+)\+?=\(([^()\n]*)\)")
IN_A_MESSAGE = re.compile(r"\\`[^`]*\\`")
REDIRECTED = re.compile(r"\s\d(?=>)")
ENDS = {"|", "||", "|&", "&&", "&", ";", ")", "))", ">", ">>", "<", "<<<", ">&", "2>", "&>", "then", "do"}


def command_lines(script: str, program: str) -> Iterator[list[str]]:
    """Yield the words after the program's name, up to the end of the command.

    Arrays are replaced by their words. An expansion stays as it is written, such as `$1`. Comments and commands that a
    message quotes are left out.
    """
    arrays: dict[str, str] = {}
    for name, words in ARRAY.findall(script):
        arrays[name] = f"{arrays.get(name, '')} {words}"
    text = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith(("#", "for ")))
    text = REDIRECTED.sub(" ", IN_A_MESSAGE.sub("", text.replace("\\\n", " ")))
    for name, words in arrays.items():
        text = text.replace(f'"${{{name}[@]}}"', words)
    for found in re.finditer(rf"(?:^|[\s(!]){program} (?=[a-z])", text, re.MULTILINE):
        yield _words(text[found.end() :])


def _words(text: str) -> list[str]:
    lines = text.split("\n")
    for count in range(1, len(lines) + 1):
        lexer = shlex.shlex("\n".join(lines[:count]), posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quote that ends on a later line
        end = next((at for at, word in enumerate(words) if word in ENDS or set(word) <= set("();<>|&")), len(words))
        return words[:end]
    raise ValueError(f"the quotes of this command have no end: {lines[0]}")
