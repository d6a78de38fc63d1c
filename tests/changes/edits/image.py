"""Edits of the image of a deployed platform."""

from __future__ import annotations

from datetime import timedelta

from tests.changes.edit import (
    INDEX,
    KEY,
    NEXT_DAY,
    OWN_BASE,
    OWN_IMAGE,
    PROXY,
    SECRET,
    SECRET_2,
    Document,
    Edit,
    group,
    with_keys,
)
from tests.changes.edits.shared import AA, BB, CC, DD, INSTALLS, NO_NODES_ELSEWHERE
from tests.synthesis import ROOT

FURTHER = r"image-(develop|extra|more)/.*|observability/ImageScan(Develop|Extra|More).*"
DEVELOP: Document = {"develop": {"packages": {"apt": ["numactl"]}}}
ADDS = "  pipeline          builds the packages and Dockerfile and the image"
A_LAYER_MORE = (
    f"live-image\n{ADDS}",
    f"live-cluster\n{INSTALLS}",
    "15 changed in place, 5 created. The deploy takes about 16 min or more.",
)
THE_SAME_IMAGE = (
    "live-image\n"
    "  pipeline          builds nothing: the registry has the image, and its signature, copies, and logins are checked",
    f"{NO_NODES_ELSEWHERE}live-mirror, live-observability",
)
FIVE_MINUTES = "7 changed in place. The deploy takes about 5 min or more."
ANOTHER_BASE = (
    "live-image\n  pipeline          builds the base and the image",
    f"live-cluster\n{INSTALLS}",
    "live-observability\n  changed in place  1 × Events::Rule",
)

OF_IMAGE: dict[str, Edit] = {
    "packages, a Dockerfile, and an image of one's own": Edit(
        (
            with_keys("image", packages={"apt": ["libaio-dev"]}),
            with_keys("image", packages={"apt": ["libaio-dev", "numactl"]}),
            with_keys("image", packages={"apt": ["libaio-dev"]}, dockerfile=str(ROOT / "examples/your-image")),
            with_keys("image", uri=OWN_IMAGE),
        ),
        "image/.*",
        says_on={"eks": A_LAYER_MORE},
    ),
    "a Dockerfile": Edit(
        (with_keys("image", dockerfile=str(ROOT / "examples/your-image")),), "image/.*", says=A_LAYER_MORE, on=("eks",)
    ),
    "an image of one's own": Edit(
        (with_keys("image", uri=OWN_IMAGE),),
        "image/.*",
        gone=("LogKey",),
        says=(
            "                    cost: you lose its log lines",
            f"live-cluster\n{INSTALLS}",
            f"{NO_NODES_ELSEWHERE}live-mirror, live-observability",
        ),
        on=("eks",),
    ),
    # The registry keeps one more base, and nothing of the deployed image changes.
    "a further image": Edit(
        (with_keys(images=DEVELOP),),
        FURTHER,
        says=(
            f"live-image-develop: a new stack\n{ADDS}",
            "live-cluster\n  changed in place  2 × SSM::Parameter",
            "4 changed in place, 31 created. The deploy takes about 16 min or more.",
        ),
        on=("eks",),
    ),
    "a further image of a group": Edit(
        (with_keys(images=DEVELOP, node_groups=[AA | {"image": "develop"}, BB, CC, DD]),),
        FURTHER,
        says=(f"live-image-develop: a new stack\n{ADDS}",),
        says_on={
            "eks": (f"live-cluster\n{INSTALLS}",),
            "hyperpod-slurm": ("live-cluster\n  changed in place  2 × SSM::Parameter",),
        },
        on=("eks", "hyperpod-slurm"),
    ),
    "further images: two, one changed, one of another name, and one that a group names": Edit(
        (
            with_keys(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["libaio-dev"]}}}),
            with_keys(images={"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["numactl"]}}}),
            with_keys(images={"develop": {"base": "devel"}, "more": {"packages": {"apt": ["numactl"]}}}),
            with_keys(images={"develop": {"base": "devel"}}, node_groups=[AA, group("bb", image="develop"), CC, DD]),
        ),
        FURTHER,
    ),
    "a base of one's own, with a login, and its own packages": Edit(
        (
            with_keys("image", base=OWN_BASE, base_login={"secret": SECRET}),
            with_keys("image", base=OWN_BASE),
            with_keys("image", base=OWN_BASE, base_login={"secret": SECRET_2, "key": KEY}),
            with_keys("image", base=OWN_BASE.replace("0" * 64, "1" * 64), base_login={"secret": SECRET_2, "key": KEY}),
            with_keys("image", base=OWN_BASE, base_packages="kept"),
        ),
        "image/.*",
        says_on={"eks": (*ANOTHER_BASE, "14 changed in place. The deploy takes about 30 min or more.")},
    ),
    "a package index with a login": Edit(
        (
            with_keys("image", build={"pip_index": INDEX, "pip_login": {"secret": SECRET}}),
            with_keys("image", build={"pip_index": INDEX}),
            with_keys("image", build={"pip_index": f"{INDEX}/other", "pip_login": {"secret": SECRET_2, "key": KEY}}),
        ),
        "image/.*",
        says_on={"eks": (*THE_SAME_IMAGE, FIVE_MINUTES)},
    ),
    "packages of other days": Edit(
        (with_keys("image", refresh=NEXT_DAY), with_keys("image", refresh=NEXT_DAY + timedelta(days=1))),
        "image/.*",
        says_on={"eks": (*ANOTHER_BASE, "13 changed in place. The deploy takes about 30 min or more.")},
    ),
    "a proxy of builds": Edit(
        (
            with_keys("network", proxy={"https": PROXY}),
            with_keys("network", proxy={"https": PROXY, "no_proxy": [".example.com"]}),
            with_keys("network", proxy={"https": PROXY.replace("3128", "8080"), "http": PROXY}),
        ),
        "(image|mirror|cluster)/.*",
    ),
    "an image that is signed, and no more": Edit(
        (with_keys("image", sign=True), with_keys("image", sign=False)),
        "image/SigningProfile",
        says_on={"eks": (*THE_SAME_IMAGE, "  created           1 × Signer::SigningProfile")},
    ),
    "copies of the image": Edit(
        (with_keys("image", replicate={"regions": ["us-east-1"]}),),
        "image/.*",
        says=(*THE_SAME_IMAGE, FIVE_MINUTES),
        on=("eks",),
    ),
}
