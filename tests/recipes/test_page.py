"""Follow a page block by block in one shell, and find wrong outputs on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.page import apply_diff, environment_of_reader, follow, session

PAGE = """\
Create `greeting.txt`:

```text
hello
```

```console
$ mkdir -p below && cd below && export NAME=ada
$ echo "$(cat ../greeting.txt) $NAME" \\
    from "$(basename "$PWD")"
hello … below
$ read -r answer && echo "it was $answer"
Really? [y/N] y
it was y
```

Change `greeting.txt`:

```diff
-hello
+welcome
```

<!-- ends with 3 -->

```console
$ cat ../greeting.txt; exit 3
welcome
```
"""


def followed(page: str, directory: Path) -> list[str]:
    work = directory / "work"
    work.mkdir()
    environment = environment_of_reader(directory / "home", "/usr/bin:/bin")
    return follow(page, work, session(work, environment, directory / "state"))


def test_a_page_is_followed_in_its_order_and_in_one_shell(tmp_path: Path) -> None:
    assert len(followed(PAGE, tmp_path)) == 4


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("hello … below", "hello … above", "'above' of 'hello … above' is not what"),
        ("hello … below", "below … hello", "'hello' of 'below … hello' is not what"),
        ("ends with 3", "ends with 4", "ends with 3"),
        ("mkdir -p", "mkdir --wrong", "ends with 1"),
        ("Really? [y/N] y", "Really? [y/N] n", "'it was y' of 'it was y' is not what"),
        ("-hello", "-helo", "has 0 times what the recipe changes"),
        ("Create `greeting.txt`", "Write `greeting.txt`", "ends with|is not what"),
    ],
)
def test_a_planted_error_is_found(right: str, wrong: str, says: str, tmp_path: Path) -> None:
    assert PAGE.count(right) == 1
    with pytest.raises(AssertionError, match=says.replace("[", r"\[")):
        followed(PAGE.replace(right, wrong), tmp_path)


def test_an_ellipsis_in_a_removed_line_stands_for_anything() -> None:
    diff = " name: ada\n-version: …\n+version: 2\n"
    assert apply_diff(diff, "name: ada\nversion: 1.0\n", "list") == "name: ada\nversion: 2\n"
    for text, times in (("name: bob\nversion: 1.0\n", 0), (2 * "name: ada\nversion: 1.0\n\n", 2)):
        with pytest.raises(AssertionError, match=f"list has {times} times"):
            apply_diff(diff, text, "list")
    with pytest.raises(AssertionError, match="ellipsis"):
        apply_diff(" name: …\n-version: 1.0\n", "name: ada\nversion: 1.0\n", "list")
