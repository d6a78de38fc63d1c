"""What the other pages say is so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.people import ADMIN, with_people
from tests.recipes.page import EDIT
from tests.seams.kubernetes.reader import read
from tests.synthesis import ROOT, assembly_in, role_of, stack_dependencies, templates_of
from trainway.manifests import cluster_manifests
from trainway.manifests.device_claims import claim_templates, claims_of_a_node
from trainway.manifests.lustre_volume import claim_of
from trainway.manifests.taints import tolerations
from trainway.spec.capacity.devices import device_counts
from trainway.spec.cost.price import price_lines, total
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.prices import Item, PriceKind, listed_price
from trainway.spec.facts.services import service_facts
from trainway.spec.loader import load_platform
from trainway.spec.lock import Lock, LockedLustre, lock_file, lock_text
from trainway.spec.sections.existing import ExistingFileSystem, ExistingNetwork
from trainway.spec.sections.kubernetes import Kubernetes
from trainway.spec.sections.storage import Lustre
from trainway.spec.sections.team import FAIR_SHARE
from trainway.spec.slurm.slurm_accounts import slurm_accounts
from trainway.spec.storage.checkpoint_layout import layout_for

DOCS = sorted((ROOT / "docs").rglob("*.md"))
TEAMS = ROOT / "docs" / "teams.md"
CLAIMED = {"gpu_devices": "dra", "queues": "none"}
DEVICES = ROOT / "docs" / "devices.md"
SLURM = ROOT / "docs" / "slurm.md"
STORAGE = ROOT / "docs" / "storage.md"
CLOSED, EXISTING = (ROOT / "docs" / f"{name}-network.md" for name in ("closed", "existing"))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_every_link_leads_somewhere(page: Path) -> None:
    # A block of a recipe is the text of another file, whose links the recipe's own test follows.
    for target in re.findall(r"\]\(([^)#]+)\)", EDIT.sub("", page.read_text())):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_one_word_closes_a_network(tmp_path: Path) -> None:
    (word,) = re.findall(r"```yaml\n(.*?)```", CLOSED.read_text(), re.DOTALL)
    example = (ROOT / "examples" / "closed-hyperpod-eks.yaml").read_text()
    assert f"\n{word}" in example
    opened = tmp_path / "platform.yaml"
    opened.write_text(example.replace(word, ""))
    assert not load_platform(opened).network.is_closed


def test_the_stacks_that_come_first_in_a_closed_network_need_nothing_that_is_brought_in() -> None:
    """The page's `STACKS` can be deployed without the rest, and the last of them prints the command."""
    (named,) = re.findall(r'make deploy .*STACKS="([^"]+)"', CLOSED.read_text())
    example = ROOT / "examples" / "closed-hyperpod-eks.yaml"
    platform, made, after = load_platform(example), templates_of(example), stack_dependencies(assembly_in(example))
    first = named.split()
    for role in (role_of(name, platform.name) for name in first):
        assert {f"{platform.name}-{below}" for below in after[role]} <= set(first)
        kinds = {resource["Type"] for resource in made[role]["Resources"].values()}
        assert not kinds & {"AWS::CodePipeline::Pipeline", "AWS::CloudFormation::WaitCondition"}
    assert f"\n       {made[role_of(first[-1], platform.name)]['Outputs']['Supply']['Value']}\n" in CLOSED.read_text()
    deploy = ["make", "--dry-run", "deploy", "PLATFORM=platform.yaml", f"STACKS={named}"]
    shown = subprocess.run(deploy, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert f"scripts/deploy {named} --context platform=platform.yaml" in shown


def test_the_adopted_network_is_one_that_a_platform_can_move_into(tmp_path: Path) -> None:
    (printed,) = re.findall(r"\$ trainway adopt [^\n]*\n(.*?)```", EXISTING.read_text(), re.DOTALL)
    network = yaml.safe_load(printed)["network"]
    found = ExistingNetwork.model_validate(network["existing"])
    assert found.model_dump(mode="json", exclude_none=True, exclude_defaults=True) == network["existing"]
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform | {"network": {"cidr": "10.20.128.0/17", **network}}))
    stack = templates_of(file)["network"]
    kinds = {resource["Type"] for resource in stack["Resources"].values()}
    assert kinds == {
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::Subnet",
        "AWS::EC2::SubnetRouteTableAssociation",
    }


def test_the_job_of_a_team_is_one_that_its_nodes_and_its_queue_take(tmp_path: Path) -> None:
    teams, job, roles = (
        yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", TEAMS.read_text(), re.DOTALL)
    )
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text())
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform | teams | roles))
    loaded, catalogue = load_platform(file), load_catalogue()
    made = [each for name, each in cluster_manifests(loaded, catalogue).items() if name.startswith("objects/")]
    named = {(each["kind"], each["metadata"]["name"]) for each in made}
    pod = job["spec"]["template"]["spec"]
    assert ("Namespace", job["metadata"]["namespace"]) in named
    assert ("LocalQueue", "default") in named
    assert ("WorkloadPriorityClass", job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]) in named
    assert pod["tolerations"] == tolerations(loaded, catalogue)
    node = catalogue[loaded.node_groups[0].instance_type]
    assert pod["containers"][0]["resources"]["limits"] == dict(node.devices)
    assert read(job, loaded.kubernetes_or_default.version) == []


def test_the_page_on_slurm_describes_its_example_and_what_becomes_of_it(tmp_path: Path) -> None:
    teams, *others = (yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", SLURM.read_text(), re.DOTALL))
    platform = yaml.safe_load((ROOT / "examples" / "hyperpod-slurm-p5en.yaml").read_text())
    assert platform["teams"] == teams["teams"]
    file = tmp_path / "platform.yaml"
    slurm = {key: value for each in others for key, value in each.get("slurm", {}).items()}
    assert {"accounting_database", "directory", "users"} <= slurm.keys()
    storage = {key: value for each in others for key, value in each.get("storage", {}).items()}
    assert storage == {"bucket": {"team_prefixes": False}}
    sections = {"slurm": platform["slurm"] | slurm, "storage": platform["storage"] | storage}
    file.write_text(yaml.safe_dump(platform | sections))
    made = slurm_accounts(load_platform(file))
    assert {account["name"]: account["qos"] for account in made["accounts"]} == {
        "research": ["research", "borrowed"],
        "guests": ["borrowed"],
    }
    assert {qos["name"]: qos["nodes"] for qos in made["qos"]} == {"borrowed": None, "research": 4}
    assert (made["settings"]["KillWait"], "has two minutes" in SLURM.read_text()) == ("120", True)
    # Further than the page says there are no shares.
    assert sorted(FAIR_SHARE.values()) == [10, 50, 100]


def test_the_jobs_of_the_page_on_devices_ask_for_what_nodes_have(tmp_path: Path) -> None:
    """One claims a whole node, the other requests a fraction of a GPU."""
    keys, claiming, divided, requesting = (
        yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", DEVICES.read_text(), re.DOTALL)
    )
    base = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text()) | {"teams": [{"name": "research"}]}
    catalogue, platforms = load_catalogue(), []
    for name, sections in (("keys", keys), ("claims", {"kubernetes": CLAIMED}), ("divided", divided)):
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(with_people(base | sections)))
        platforms.append(load_platform(file))
    assert platforms[0].kubernetes_or_default == Kubernetes(efa_devices="plugin", admins=(ADMIN,))
    for platform, job in zip(platforms[1:], (claiming, requesting), strict=True):
        assert read(job, platform.kubernetes_or_default.version) == []
        assert job["spec"]["template"]["spec"]["tolerations"] == tolerations(platform, catalogue)
    claims = [each["resourceClaimTemplateName"] for each in claiming["spec"]["template"]["spec"]["resourceClaims"]]
    assert tuple(claims) == claims_of_a_node(platforms[1], platforms[1].node_groups[0], catalogue)
    assert {"gpu-1-efa-4", *claims} == {
        each["metadata"]["name"] for each in claim_templates(platforms[1], catalogue, "research")
    }
    assert all(f"`{name}`" in DEVICES.read_text() for name in ("gpu-1-efa-4", "trainway-torch-train"))
    (container,) = requesting["spec"]["template"]["spec"]["containers"]
    ((resource, _),) = container["resources"]["limits"].items()
    assert device_counts(platforms[2], platforms[2].node_groups[1], catalogue)[resource] == 56


STORAGE_SECTIONS = re.findall(r"```yaml\n(storage:.*?)```", STORAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("section", range(len(STORAGE_SECTIONS)))
def test_the_storage_of_the_page_can_be_asked_for(section: int, tmp_path: Path) -> None:
    storage = yaml.safe_load(STORAGE_SECTIONS[section])
    example = "hyperpod-slurm-p5en" if "home" in storage["storage"] else "eks-p5"
    # The file system of the page is one that all teams share.
    platform = yaml.safe_load((ROOT / "examples" / f"{example}.yaml").read_text()) | {"teams": []}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform | storage))
    if "former_lustre" in storage["storage"]:
        lock_file(file).write_text(lock_text(Lock(lustre=LockedLustre(storage_class="ssd", efa=False))))
    assert load_platform(file).storage.model_fields_set == set(storage["storage"])


def test_the_storage_page_has_the_throughput_and_the_prices_of_the_facts() -> None:
    """A price that is unknown in the Region of the table is unknown on the page, too."""
    row = r"^\| `(\{.*?\})`[^|]*\|[^|]*\| ([^|]*) \| ([^|]*) \|"
    rows, facts = re.findall(row, STORAGE.read_text(), re.MULTILINE), service_facts().lustre
    expected: list[tuple[str, str, str]] = []
    for written, *_ in rows:
        lustre = Lustre.model_validate(yaml.safe_load(written))
        if lustre.is_elastic:
            expected.append((written, "by `throughput_mbps`", "by its contents"))
            continue
        rates = [lustre.throughput_mbps_per_tib, *([1000] if lustre.throughput_mbps_per_tib == 500 else [])]
        if lustre.is_scratch:
            rates = [facts.scratch_throughput_mbps_per_tib]
        names = ["lustre-scratch-2"] if lustre.is_scratch else [f"lustre-persistent-2-{rate}" for rate in rates]
        prices = [listed_price(Item(PriceKind.SERVICE, "us-east-1", name)) for name in names]
        costs = ["unknown" if each is None else f"${each.usd * lustre.capacity_gib:.2f}" for each in prices]
        expected.append(
            (written, " or ".join(f"{rate * 1.2:.0f}" for rate in rates), " or ".join(dict.fromkeys(costs)))
        )
    assert rows == expected and len(rows) == 5
    bucket = listed_price(Item(PriceKind.SERVICE, "us-east-1", "s3-standard"))
    assert bucket and f"A GB in the bucket costs ${bucket.usd} a month." in STORAGE.read_text()
    small = total(price_lines(load_platform(ROOT / "examples/eks-scratch.yaml"), load_catalogue(), listed_price))
    assert small.per_hour < 1 and not small.without


def test_the_job_of_the_storage_page_copies_from_one_claim_to_the_other() -> None:
    (text,) = re.findall(r"```yaml\n(apiVersion:.*?)```", STORAGE.read_text(), re.DOTALL)
    job = yaml.safe_load(text.replace("YOUR-NAMESPACE", "atlas"))
    assert read(job, Kubernetes().version) == []
    pod = job["spec"]["template"]["spec"]
    claims = [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]]
    assert claims == [claim_of(1), claim_of(2)]
    mounted = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert list(mounted) == [each["name"] for each in pod["volumes"]]
    assert pod["containers"][0]["command"][-2:] == [f"{mounted['old']}/workspaces", f"{mounted['new']}/"]


def test_the_sum_of_the_storage_page_is_the_plans() -> None:
    layout = layout_for(8192)
    each = f"{layout.writers_on_a_prefix} writers × {layout.requests_each} = {layout.requests_on_a_prefix}"
    sentence = f"8192 writers on {layout.prefixes} prefixes. Each prefix gets at most {each} of the 3500"
    assert sentence in STORAGE.read_text()


def test_the_adopted_file_system_of_the_storage_page_is_one() -> None:
    (printed,) = re.findall(r"\$ trainway adopt fs-[^\n]*\n(.*?)```", STORAGE.read_text(), re.DOTALL)
    existing = yaml.safe_load(printed)["storage"]["lustre"]["existing"]
    assert ExistingFileSystem.model_validate(existing).model_dump(exclude_defaults=True) == existing
