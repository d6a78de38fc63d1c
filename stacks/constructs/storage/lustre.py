"""An FSx for Lustre file system whose directories mirror S3 prefixes."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.retention import keep_or_delete
from stacks.constructs.storage.fsx_times import backup_hour, maintenance_window
from trainway.spec.facts.services import service_facts
from trainway.spec.handoff import Association
from trainway.spec.sections.storage import Lustre
from trainway.spec.storage.lustre_links import link_of_import, mirror, new_mirrors

CfnFileSystem = fsx.CfnFileSystem


class LustreFileSystem(Construct):
    """The file system, the security rules that mounting requires, and its data repository associations.

    For an existing file system, only missing parts are created: rules for the nodes, and associations. L1:
    `fsx.LustreFileSystem` supports neither EFA nor metadata configuration. `name` is the value of the tag Name. None:
    no such tag.
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
        name: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.resource: CfnFileSystem | None = None
        if existing := lustre.existing:
            _allow_lustre(self, servers=existing.security_group_id, clients=client_group_id)
            self.file_system_id, self.dns_name = existing.file_system_id, existing.dns_name
            self.mount_name, self.security_group_id = existing.mount_name, existing.security_group_id
        else:
            group = ec2.CfnSecurityGroup(
                self, "Group", group_description="FSx for Lustre file servers and their clients", vpc_id=vpc_id
            )
            self.resource = file_system = self._make(lustre, group, subnet_id, client_group_id, name)
            self.file_system_id, self.dns_name = file_system.ref, file_system.attr_dns_name
            self.mount_name, self.security_group_id = file_system.attr_lustre_mount_name, group.attr_group_id
        for name in new_mirrors(lustre):
            self._associate(name.capitalize(), mirror(bucket.bucket_name, name), export=["NEW", "CHANGED", "DELETED"])
        for uri in lustre.import_from:
            association = link_of_import(uri)
            location = association.path.removeprefix("/import/")
            self._associate("Import" + "".join(c for c in location.title() if c.isalnum()), association, export=[])

    def _make(
        self, lustre: Lustre, group: ec2.CfnSecurityGroup, subnet_id: str, client_group_id: str, name: str | None
    ) -> CfnFileSystem:
        among_servers = _allow(self, "ServersFromServers", to=group.attr_group_id, source=group.attr_group_id)
        rules = [*among_servers, *_allow_lustre(self, servers=group.attr_group_id, clients=client_group_id)]
        file_system = CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type="INTELLIGENT_TIERING" if lustre.is_elastic else "SSD",
            storage_capacity=None if lustre.is_elastic else lustre.capacity_gib,
            subnet_ids=[subnet_id],
            # With EFA, file servers communicate with the nodes over EFA and need the same self-referencing group.
            security_group_ids=[group.attr_group_id, *([client_group_id] if lustre.efa else [])],
            kms_key_id=lustre.key,
            lustre_configuration=_configuration(lustre),
            tags=[cdk.CfnTag(key="Name", value=name)] if name else None,
        )
        for rule in rules:
            # The service checks the rules when it creates the file system, and refuses it if they are missing.
            file_system.add_resource_dependency(rule)
        # The rules that name the nodes' group are deleted with the nodes. Otherwise that group could not be deleted.
        keep_or_delete(lustre.on_destroy, file_system, group, *among_servers)
        return file_system

    def _associate(self, name: str, association: Association, *, export: list[str]) -> None:
        policy = fsx.CfnDataRepositoryAssociation
        fsx.CfnDataRepositoryAssociation(
            self,
            f"{name}Repository",
            file_system_id=self.file_system_id,
            file_system_path=association.path,
            data_repository_path=f"{association.s3}/",
            batch_import_meta_data_on_create=True,
            s3=policy.S3Property(
                auto_import_policy=policy.AutoImportPolicyProperty(events=["NEW", "CHANGED", "DELETED"]),
                auto_export_policy=policy.AutoExportPolicyProperty(events=export) if export else None,
            ),
        )


def _configuration(lustre: Lustre) -> CfnFileSystem.LustreConfigurationProperty:
    """Return the configuration without properties that the storage class lacks, because the service refuses them.

    https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html (read 2026-11-21)
    """
    if lustre.is_scratch:
        return CfnFileSystem.LustreConfigurationProperty(
            deployment_type="SCRATCH_2",
            data_compression_type="LZ4" if lustre.compression else "NONE",
            weekly_maintenance_start_time=maintenance_window(lustre.maintenance),
        )
    elastic, backups = lustre.is_elastic, lustre.backups
    return CfnFileSystem.LustreConfigurationProperty(
        deployment_type="PERSISTENT_2",
        per_unit_storage_throughput=None if elastic else lustre.throughput_mbps_per_tib,
        throughput_capacity=lustre.throughput_mbps if elastic else None,
        data_read_cache_configuration=_read_cache(lustre.read_cache_gib) if elastic else None,
        data_compression_type="LZ4" if lustre.compression else "NONE",
        efa_enabled=lustre.efa,
        metadata_configuration=_metadata(lustre),
        weekly_maintenance_start_time=maintenance_window(lustre.maintenance),
        automatic_backup_retention_days=backups.days if backups else None,
        daily_automatic_backup_start_time=backup_hour(backups),
        copy_tags_to_backups=True if backups else None,
    )


def _metadata(lustre: Lustre) -> CfnFileSystem.MetadataConfigurationProperty:
    """Return the metadata configuration. Intelligent-Tiering has no automatic mode."""
    least = service_facts().lustre.intelligent_tiering.metadata_iops[0]
    iops = lustre.metadata_iops or (least if lustre.is_elastic else None)
    mode = "AUTOMATIC" if iops is None else "USER_PROVISIONED"
    return CfnFileSystem.MetadataConfigurationProperty(mode=mode, iops=iops)


def _read_cache(gib: int | None) -> CfnFileSystem.DataReadCacheConfigurationProperty:
    cache = CfnFileSystem.DataReadCacheConfigurationProperty
    if gib is None:
        return cache(sizing_mode="PROPORTIONAL_TO_THROUGHPUT_CAPACITY")
    return cache(sizing_mode="USER_PROVISIONED", size_gib=gib) if gib else cache(sizing_mode="NO_CACHE")


def _allow_lustre(scope: Construct, *, servers: str, clients: str) -> list[ec2.CfnSecurityGroupIngress]:
    """Allow Lustre's ports between servers and clients, in both directions. Their own groups have rules as well."""
    return [
        *_allow(scope, "ServersFromClients", to=servers, source=clients),
        *_allow(scope, "ClientsFromServers", to=clients, source=servers),
    ]


def _allow(scope: Construct, name: str, *, to: str, source: str) -> list[ec2.CfnSecurityGroupIngress]:
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
        for first, last in service_facts().lustre.ports
    ]
