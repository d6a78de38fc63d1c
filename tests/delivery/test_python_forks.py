"""The `python3` of these tests, which is a fork, does what Python does."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.delivery.conftest import Workshop

PROGRAM = """
import os, sys
print(__name__, sys.argv, sys.path[0], os.environ["A"], os.environ.get("HOME"), os.getcwd())
print(sys.stdin.read(), file=sys.stderr)
if "raise" in sys.argv:
    raise KeyError("key")
sys.exit(next((each for each in sys.argv if each.isdigit()), None) and 3 or " ".join(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "line",
    [
        "python3 program.py <<<'a line'",
        "python3 program.py 1 '' ü </dev/null",
        "python3 program.py and a reason </dev/null",
        "python3 program.py raise </dev/null",
        "cd folder && echo one | python3 -m module 'two words' 1",
        "python3 -c 'import sys; print(sys.argv, sys.path[0], __name__, sys.stdin.read())' a b <program.py",
        "echo begun >log; python3 -c 'print(1)' >>log; python3 -c 'print(2)' >>log; cat log",
        "{ read -r line; echo $line; python3 -c 'print(input())'; } < <(printf 'first\\nsecond\\n')",
        "python3 -c 'import sys; print(1); print(2, file=sys.stderr)' 2>&1",
        "python3 -c 'import sys; print(sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors, chr(0x2026))'",
        "PYTHONIOENCODING=latin-1 python3 -c 'import sys; print(sys.stdout.encoding)'",
        "python3 -I -c 'import sys; print(sys.flags.isolated)'",
        "{ python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)' || echo failed; } 2>/dev/null",
        "for number in 1 2 3 4 5 6 7 8; do python3 -c 'import sys; print(sys.argv)' $number & done | sort; wait",
    ],
)
def test_the_fork_does_what_python_does(workshop: Workshop, line: str) -> None:
    folder = workshop.root / "folder"
    folder.mkdir()
    for file in (workshop.root / "program.py", folder / "module.py"):
        file.write_text(PROGRAM, encoding="utf-8")
    python = Path(sys.executable).parent
    forked, started = (
        subprocess.run(
            ["bash", "-c", line],
            cwd=workshop.root,
            env={"PATH": f"{first}:/usr/bin:/bin", "A": "b\n=c"},
            capture_output=True,
            text=True,
        )
        for first in (f"{workshop.root / 'bin'}:{python}", python)
    )
    assert forked.returncode == started.returncode
    assert forked.stdout.replace(f"{workshop.root / 'bin'}:", "") == started.stdout
    # The frames of what runs the program differ.
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]
    assert "Traceback" in forked.stderr or forked.stderr == started.stderr
