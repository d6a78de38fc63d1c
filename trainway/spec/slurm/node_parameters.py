"""The parameters of a HyperPod node's lifecycle scripts, as one document: parameters.json.

The synthesis writes it with placeholders for values that only the deploy knows. The delivery fills them in. On the
node, lifecycle_scripts/node_facts.py reads it with the JSON Schema of this model.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.observability.collection import SCRAPING_DOCUMENT, Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.sections.slurm import CONTROLLER_GROUP, LOGIN_GROUP
from trainway.spec.sections.storage import HOME_PATH, MOUNT_PATH
from trainway.spec.slurm.node_packages import Containers, node_containers
from trainway.spec.slurm.slurm_accounts import ACCOUNTS_DOCUMENT
from trainway.spec.slurm.slurm_nodes import SlurmOnNodes, slurm_nodes
from trainway.spec.slurm.slurm_users import USERS_DOCUMENT, DirectoryOnNodes, slurm_directory
from trainway.spec.storage.lustre_clients import efa_interfaces
from trainway.spec.values import Section

Text = Annotated[str, Field(min_length=1)]
# Placeholders for environment variables of the scripts' stage. The first two also occur in Kubernetes manifests.
FSX_DNS_NAME = "${TRAINWAY_FSX_DNS_NAME}"
FSX_MOUNT_NAME = "${TRAINWAY_FSX_MOUNT_NAME}"
HOME_DNS_NAME = "${TRAINWAY_HOME_DNS_NAME}"
DOCUMENTS_S3_URI = "${TRAINWAY_DOCUMENTS_S3_URI}"
# Schema key for a mapping by instance group. A node gets the value of its own group. The key's value is the default for
# groups that the mapping leaves out.
OWN_GROUP = "x-own-group"


class HomeMount(Section):
    """An FSx for OpenZFS file system for home directories, and who mounts it."""

    dns_name: Text
    mount_path: Text
    mounted_by: Literal["service", "script"] = Field(
        description="service: HyperPod mounts the file system, and the node verifies it. script: the node mounts it."
    )


class LustreMount(HomeMount):
    """An FSx for Lustre file system, and who mounts it."""

    mount_name: Text


class BucketDocument(Section):
    """A JSON document in the platform's bucket, which nodes fetch again and again."""

    s3_uri: Text
    region: Text


class NodeParameters(Section):
    """What the lifecycle scripts of a HyperPod node know of the platform."""

    orchestrator: Literal["hyperpod-slurm", "hyperpod-eks"]
    controller_group: Text | None = Field(None, description="Instance group of the Slurm controllers.")
    login_groups: tuple[Text, ...] = Field((), description="Instance groups of the login nodes.")
    fsx: LustreMount | None = Field(None, description="The file system that the node itself has; null: none.")
    homes: HomeMount | None = Field(None, description="Where home directories are; null: on the node's own disk.")
    containers: Containers = Field(
        "none", description="enroot and pyxis on nodes of Slurm: a node fails without them, does without, or has none."
    )
    exporters: bool = Field(False, description="Whether every node of Slurm has metrics for Prometheus.")
    lustre_efa_interfaces: dict[str, int] = Field(
        default_factory=dict,
        description="EFA interfaces of a node over which it reaches Lustre, by instance group.",
        json_schema_extra={OWN_GROUP: 0, "default": {}},
    )
    slurm: SlurmOnNodes | None = Field(None, description="What the nodes know of Slurm; null: there is none.")
    slurm_accounts: BucketDocument | None = Field(
        None, description="The teams, which a controller fetches; null: none are kept."
    )
    slurm_users: BucketDocument | None = Field(
        None, description="The users, whom every node fetches; null: none are kept."
    )
    slurm_scraping: BucketDocument | None = Field(
        None, description="What a controller scrapes, which it fetches; null: it collects no metrics."
    )
    directory: DirectoryOnNodes | None = Field(None, description="The LDAP directory of users; null: none.")


def node_parameters(platform: Platform, catalogue: Catalogue) -> NodeParameters:
    """Return the parameters of a HyperPod platform's nodes, with placeholders for values that only the deploy knows.

    Under Kubernetes the node mounts no file system. The CSI driver does, in each pod.
    """
    over_efa = efa_interfaces(platform, catalogue)
    if platform.orchestrator.is_kubernetes:
        return NodeParameters(orchestrator="hyperpod-eks", lustre_efa_interfaces=over_efa)
    slurm = platform.slurm_or_default
    lustre = LustreMount(dns_name=FSX_DNS_NAME, mount_name=FSX_MOUNT_NAME, mount_path=MOUNT_PATH, mounted_by="service")
    home = HomeMount(dns_name=HOME_DNS_NAME, mount_path=HOME_PATH, mounted_by="service")

    def document(name: str) -> BucketDocument:
        return BucketDocument(s3_uri=f"{DOCUMENTS_S3_URI}/{name}.json", region=platform.region)

    return NodeParameters(
        orchestrator="hyperpod-slurm",
        controller_group=CONTROLLER_GROUP,
        login_groups=(LOGIN_GROUP,) if slurm.login else (),
        fsx=lustre,
        homes=home if platform.storage.home else None,
        containers=node_containers(platform),
        exporters=slurm.exporters,
        lustre_efa_interfaces=over_efa,
        slurm=slurm_nodes(platform, catalogue),
        slurm_accounts=document(ACCOUNTS_DOCUMENT),
        slurm_users=document(USERS_DOCUMENT),
        slurm_scraping=document(SCRAPING_DOCUMENT) if collector_of(platform) is Collector.AGENT else None,
        directory=slurm_directory(platform),
    )


def node_parameters_schema() -> dict[str, Any]:
    """Return the JSON Schema of parameters.json, without references and titles, which the node uses to read it."""
    schema = NodeParameters.model_json_schema()
    definitions = schema.pop("$defs")

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        if not isinstance(value, dict):
            return value
        if reference := value.get("$ref"):
            return plain(definitions[reference.removeprefix("#/$defs/")])
        # A property may also be named title. Its value is then a schema.
        return {key: plain(each) for key, each in value.items() if key != "title" or isinstance(each, dict)}

    return dict(plain(schema))
