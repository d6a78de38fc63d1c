"""Root squash is set where it is not, and waited for."""

from __future__ import annotations

import json

import pytest

from tests.delivery.conftest import Workshop

# FSx, which needs two looks until what it was told is in force. The stand-in computes the query by JMESPath, as the AWS
# CLI does.
FSX = r"""
case "$1 $2" in
  "fsx update-file-system") echo "${!#}" >"$TOLD" ;;
  "fsx describe-file-systems")
    answer="{\"RootSquashConfiguration\": $NOW}"
    if [[ -e "$TOLD" ]]; then
      echo x >>"$TOLD.looks"
      (($(wc -l <"$TOLD.looks") < ${COMES_AFTER:-2})) || answer=$(<"$TOLD")
    fi
    python3 -c 'import json, sys
import jmespath
answer, words = json.loads(sys.argv[1]), sys.argv[2:]
found = jmespath.search(words[words.index("--query") + 1], {"FileSystems": [{"LustreConfiguration": answer}]})
print(*found, sep="\t")' "$answer" "$@" ;;
esac
"""


@pytest.fixture
def fsx(workshop: Workshop) -> Workshop:
    workshop.environment |= {
        "FSX_ID": "fs-0123456789abcdef0",
        "ROOT_SQUASH": "65534:65534",
        "TOLD": str(workshop.root / "told"),
        "NOW": "{}",
    }
    workshop.stand_in("aws", FSX)
    workshop.stand_in("sleep")
    return workshop


def test_it_is_set_with_its_exceptions_and_waited_for(fsx: Workshop) -> None:
    done = fsx.run("squash.sh", NO_SQUASH_NIDS="10.0.1.6@tcp 10.0.[2-10].[1-255]@tcp")
    assert done.returncode == 0, done.stderr
    assert json.loads((fsx.root / "told").read_text()) == {
        "RootSquashConfiguration": {
            "RootSquash": "65534:65534",
            "NoSquashNids": ["10.0.1.6@tcp", "10.0.[2-10].[1-255]@tcp"],
        }
    }
    assert len(fsx.called("aws", "fsx", "describe-file-systems")) == 3
    assert "but for 10.0.1.6@tcp, 10.0.[2-10].[1-255]@tcp" in done.stdout


def test_what_is_in_force_is_not_set_again(fsx: Workshop) -> None:
    done = fsx.run("squash.sh", NOW='{"RootSquash": "65534:65534"}')
    assert done.returncode == 0, done.stderr
    assert not fsx.called("aws", "fsx", "update-file-system")


def test_an_fsx_that_does_not_follow_fails_the_deploy(fsx: Workshop) -> None:
    done = fsx.run("squash.sh", COMES_AFTER="1000000", SQUASH_SECONDS="1")
    assert done.returncode == 1
    assert "within 1 s" in done.stderr


def test_what_it_lacks_is_named_at_once(workshop: Workshop) -> None:
    done = workshop.run("squash.sh")
    assert "missing environment variables: FSX_ID ROOT_SQUASH" in done.stderr
