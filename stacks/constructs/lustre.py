"""An FSx for Lustre file system whose directories mirror S3 prefixes."""

from __future__ import annotations

from urllib.parse import urlsplit

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from constructs import Construct

from trainway.spec.handoff import Association
from trainway.spec.sections.storage import Lustre
from trainway.spec.services import service_facts

# Directories of the data bucket that appear under the same name in the file system, both ways.
MIRRORED_PREFIXES = ("corpus", "checkpoints", "runs")


class LustreFileSystem(Construct):
    """The file system, the security rules without which it cannot be mounted, and its data repository associations.

    L1: `fsx.LustreFileSystem` knows neither EFA nor metadata configuration.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        lustre: Lustre,
        bucket: s3.IBucket,
        vpc_id: str,
        subnet_id: str,
        client_group_id: str,
    ) -> None:
        super().__init__(scope, id)
        group = ec2.CfnSecurityGroup(
            self, "Group", group_description="FSx for Lustre file servers and their clients", vpc_id=vpc_id
        )
        rules = _allow_lustre(self, servers=group.attr_group_id, clients=client_group_id)
        self.file_system = fsx.CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type="SSD",
            storage_capacity=lustre.capacity_gib,
            subnet_ids=[subnet_id],
            # With EFA, file servers speak to the nodes over EFA themselves and need the same self-referencing group.
            security_group_ids=[group.attr_group_id, *([client_group_id] if lustre.efa else [])],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type="PERSISTENT_2",
                per_unit_storage_throughput=lustre.throughput_mbps_per_tib,
                data_compression_type="LZ4",
                efa_enabled=lustre.efa,
                metadata_configuration=fsx.CfnFileSystem.MetadataConfigurationProperty(mode="AUTOMATIC"),
            ),
        )
        for rule in rules:
            # The service checks the rules when it creates the file system, and refuses it if they are missing.
            self.file_system.add_resource_dependency(rule)
        self.associations = [self._mirror(bucket, prefix) for prefix in MIRRORED_PREFIXES]
        self.associations += [self._import(uri) for uri in lustre.import_from]

    def _mirror(self, bucket: s3.IBucket, prefix: str) -> Association:
        association = Association(path=f"/{prefix}", s3=f"s3://{bucket.bucket_name}/{prefix}")
        self._associate(prefix.capitalize(), association, export=["NEW", "CHANGED", "DELETED"])
        return association

    def _import(self, uri: str) -> Association:
        parts = urlsplit(uri)
        location = f"{parts.netloc}{parts.path}".rstrip("/")
        association = Association(path=f"/import/{location}", s3=f"s3://{location}")
        self._associate("Import" + "".join(c for c in location.title() if c.isalnum()), association, export=[])
        return association

    def _associate(self, name: str, association: Association, *, export: list[str]) -> None:
        policy = fsx.CfnDataRepositoryAssociation
        fsx.CfnDataRepositoryAssociation(
            self,
            f"{name}Repository",
            file_system_id=self.file_system.ref,
            file_system_path=association.path,
            data_repository_path=f"{association.s3}/",
            batch_import_meta_data_on_create=True,
            s3=policy.S3Property(
                auto_import_policy=policy.AutoImportPolicyProperty(events=["NEW", "CHANGED", "DELETED"]),
                auto_export_policy=policy.AutoExportPolicyProperty(events=export) if export else None,
            ),
        )


def _allow_lustre(scope: Construct, *, servers: str, clients: str) -> list[ec2.CfnSecurityGroupIngress]:
    """Both port ranges, from and to servers and clients: a mount needs every one of the four directions."""
    pairs = {
        "ServersFromServers": (servers, servers),
        "ServersFromClients": (servers, clients),
        "ClientsFromServers": (clients, servers),
    }
    return [
        ec2.CfnSecurityGroupIngress(
            scope,
            f"{name}{first}",
            group_id=to,
            source_security_group_id=source,
            ip_protocol="tcp",
            from_port=first,
            to_port=last,
            description="Lustre",
        )
        for name, (to, source) in pairs.items()
        for first, last in service_facts().lustre.ports
    ]
