"""An FSx for OpenZFS file system for home directories."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from constructs import Construct

from stacks.constructs.retention import keep_or_delete
from stacks.constructs.storage.fsx_times import backup_hour, maintenance_window
from trainway.spec.facts.services import service_facts
from trainway.spec.sections.storage import Home

CfnFileSystem = fsx.CfnFileSystem
# A node's root user creates home directories, and changes their owner to the user.
EXPORT_OPTIONS = ["rw", "crossmnt", "no_root_squash"]


class HomeFileSystem(Construct):
    """The file system and its security rules. Its clients are the nodes, whatever their addresses."""

    def __init__(
        self, scope: Construct, id: str, *, home: Home, vpc_id: str, subnet_id: str, client_group_id: str
    ) -> None:
        super().__init__(scope, id)
        group = ec2.CfnSecurityGroup(self, "Group", group_description="FSx for OpenZFS file servers", vpc_id=vpc_id)
        for protocol in ("tcp", "udp"):
            for first, last in service_facts().openzfs.ports:
                ec2.CfnSecurityGroupIngress(
                    self,
                    f"Nfs{protocol.title()}{first}",
                    group_id=group.attr_group_id,
                    source_security_group_id=client_group_id,
                    ip_protocol=protocol,
                    from_port=first,
                    to_port=last,
                    description="NFS",
                )
        exports = CfnFileSystem.NfsExportsProperty(
            client_configurations=[CfnFileSystem.ClientConfigurationsProperty(clients="*", options=EXPORT_OPTIONS)]
        )
        backups = home.backups
        file_system = CfnFileSystem(
            self,
            "FileSystem",
            file_system_type="OPENZFS",
            storage_type="SSD",
            storage_capacity=home.capacity_gib,
            subnet_ids=[subnet_id],
            security_group_ids=[group.attr_group_id],
            kms_key_id=home.key,
            open_zfs_configuration=CfnFileSystem.OpenZFSConfigurationProperty(
                deployment_type="SINGLE_AZ_HA_2" if home.highly_available else "SINGLE_AZ_2",
                throughput_capacity=home.throughput_mbps,
                root_volume_configuration=CfnFileSystem.RootVolumeConfigurationProperty(
                    data_compression_type="LZ4", nfs_exports=[exports]
                ),
                weekly_maintenance_start_time=maintenance_window(home.maintenance),
                automatic_backup_retention_days=backups.days if backups else 0,
                daily_automatic_backup_start_time=backup_hour(backups),
                copy_tags_to_backups=True if backups else None,
            ),
        )
        keep_or_delete(home.on_destroy, file_system, group)
        self.dns_name = file_system.attr_dns_name
