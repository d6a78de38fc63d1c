"""The image stage copies the image to other Regions and accounts, byte for byte, and says what they lack."""

import pytest

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
IMAGE = {"IMAGE_REPOSITORY": f"{REGISTRY}/atlas/training", "IMAGE_TAG": "c0ffee", "BASE_TAG": "ba5e"}
EAST, OTHER = "111122223333.dkr.ecr.us-east-1.amazonaws.com", "444455556666.dkr.ecr.us-west-2.amazonaws.com"
# Registries as directories; the own one is $ECR.
ELSEWHERE = r"""
words=" $* "
if [[ "$1 $2" == "ecr describe-images" && "$words" == *" --registry-id "* ]]; then
  account=${words#* --registry-id } region=${words#* --region }
  place=$HOME/elsewhere/${account%% *}-${region%% *}/$4
  [[ -z "${DENIED:-}" ]] || { echo "AccessDeniedException" >&2; exit 254; }
  [[ -d "$place" ]] || { echo "RepositoryNotFoundException" >&2; exit 254; }
  [[ -e "$place/${6#imageTag=}" ]] || { echo "ImageNotFoundException" >&2; exit 254; }
  cat "$place/${6#imageTag=}"
  exit
fi
if [[ "$1 $2" == "ecr create-repository" ]]; then
  mkdir -p "$HOME/elsewhere/111122223333-$4/$6"
  exit
fi
"""
COPY = r"""
if [[ "$1 $2 $3" == "buildx imagetools create" ]]; then
  target=${*: -2:1} source=${*: -1}
  [[ "$target" =~ ^([0-9]+)[.]dkr[.]ecr[.]([a-z0-9-]+)[.][^/]*/(.*):(.*)$ ]]
  echo "${source#*@}" >"$HOME/elsewhere/${BASH_REMATCH[1]}-${BASH_REMATCH[2]}/${BASH_REMATCH[3]}/${BASH_REMATCH[4]}"
  exit
fi
"""


@pytest.fixture
def built(aws):
    """A platform whose image was built without copies."""
    for name, body in {"aws": ELSEWHERE, "docker": COPY}.items():
        aws.stand_in(name, body + (aws.root / "bin" / name).read_text().split("RECORD\n")[-1])
    for script in ("base.sh", "image.sh"):
        done = aws.run(script, **IMAGE)
        assert done.returncode == 0, done.stderr
    assert aws.called("docker", "buildx", "imagetools") == []
    return aws


def own(workshop) -> str:
    return "sha256:" + (workshop.root / "ecr/atlas/training/c0ffee").read_text().strip()


def copy_in(workshop, place: str):
    return workshop.root / "elsewhere" / place / "atlas/training/c0ffee"


def test_a_key_that_comes_later_copies_the_image_that_is_there_into_a_repository_of_its_own(built):
    done = built.run("image.sh", **IMAGE, REPLICATE_TO=EAST)
    assert done.returncode == 0, done.stderr
    assert copy_in(built, "111122223333-us-east-1").read_text().strip() == own(built)
    [create] = built.called("aws", "ecr", "create-repository")
    assert create[create.index("--image-tag-mutability") + 1] == "IMMUTABLE"
    [copy] = built.called("docker", "buildx", "imagetools", "create")
    assert copy[-2:] == [f"{EAST}/atlas/training:c0ffee", f"{REGISTRY}/atlas/training@{own(built)}"]
    assert "--prefer-index=false" in copy
    # Each registry lets in by a login of its own Region.
    assert [call[-1] for call in built.called("docker", "login")[-2:]] == [REGISTRY, EAST]

    again = built.run("image.sh", **IMAGE, REPLICATE_TO=EAST)
    assert again.returncode == 0 and f"{EAST}/atlas/training:c0ffee exists" in again.stdout
    assert len(built.called("docker", "buildx", "imagetools", "create")) == 1

    without = built.run("image.sh", **IMAGE)
    assert without.returncode == 0 and copy_in(built, "111122223333-us-east-1").exists(), "copies stay"


def test_a_repository_of_another_account_is_filled_and_not_created(built):
    done = built.run("image.sh", **IMAGE, REPLICATE_TO=f"{EAST} {OTHER}")
    assert done.returncode == 1
    assert "account 444455556666 has no repository atlas/training in us-west-2" in done.stderr
    assert "a policy that lets this account push" in done.stderr
    copy_in(built, "444455556666-us-west-2").parent.mkdir(parents=True)
    done = built.run("image.sh", **IMAGE, REPLICATE_TO=f"{EAST} {OTHER}")
    assert done.returncode == 0, done.stderr
    assert copy_in(built, "444455556666-us-west-2").read_text().strip() == own(built)


def test_another_image_of_the_same_tag_is_never_overwritten(built):
    there = copy_in(built, "111122223333-us-east-1")
    there.parent.mkdir(parents=True)
    there.write_text("sha256:other\n")
    done = built.run("image.sh", **IMAGE, REPLICATE_TO=EAST)
    assert done.returncode == 78
    assert f"{EAST}/atlas/training:c0ffee is another image, sha256:other" in done.stderr
    assert there.read_text() == "sha256:other\n"


def test_a_registry_that_refuses_ends_the_stage_with_the_key(built):
    done = built.run("image.sh", **IMAGE, REPLICATE_TO=OTHER, DENIED="1")
    assert done.returncode == 1
    assert f"image.replicate: {OTHER}/atlas/training cannot be asked" in done.stderr
    assert "AccessDeniedException" in done.stderr
