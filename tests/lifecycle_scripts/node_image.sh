#!/usr/bin/env bash
# Makes of a Debian what HyperPod's image for Slurm is, as far as lifecycle scripts see it: node_image.sh ROOT
set -euo pipefail
root=$1

# Slurm lies below /opt/slurm there, and starts nothing by itself.
# https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/start_slurm.sh
# (read 2026-11-22)
mkdir -p "$root/opt/slurm/bin" "$root/opt/slurm/sbin"
mv "$root/etc/slurm" "$root/opt/slurm/etc"
ln -s /opt/slurm/etc "$root/etc/slurm"
# Relative, because tests write to a node's disk from outside, too.
mkdir "$root/opt/slurm/include"
ln -s ../../../usr/include/slurm "$root/opt/slurm/include/slurm"
for program in sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag sinfo sprio squeue sreport srun \
  sshare sstat strigger; do
  ln -s "/usr/bin/$program" "$root/opt/slurm/bin/$program"
done
for program in slurmctld slurmd slurmdbd slurmstepd; do
  ln -s "/usr/sbin/$program" "$root/opt/slurm/sbin/$program"
done
for daemon in slurmctld slurmd slurmdbd; do
  # The image's own units, which say nothing of where a configuration must be.
  sed -e '/^ConditionPathExists=/d' -e 's|/usr/sbin/slurm|/opt/slurm/sbin/slurm|' "$root/lib/systemd/system/$daemon.service" \
    >"$root/etc/systemd/system/$daemon.service"
  rm "$root/etc/init.d/$daemon"
done
chroot "$root" systemctl --quiet disable mariadb munge slurmctld slurmd slurmdbd
rm -f "$root/etc/munge/munge.key"

chroot "$root" useradd --create-home --shell /bin/bash --uid 1000 ubuntu
echo 'ubuntu ALL=(ALL) NOPASSWD:ALL' >"$root/etc/sudoers.d/90-ubuntu"
chmod 0440 "$root/etc/sudoers.d/90-ubuntu"

# Ubuntu's sessions take their umask from the account, Debian's from the shell.
echo 'session optional pam_umask.so' >>"$root/etc/pam.d/common-session"
# What a test starts, once it has written a configuration.
chroot "$root" systemctl --quiet disable mariadb prometheus-node-exporter slapd sssd \
  sssd-{autofs,nss,pac,pam,ssh,sudo}.socket 2>/dev/null
# Debian lets SSSD in as it installs it; the image's is as if somebody had put it there by hand.
chroot "$root" pam-auth-update --package --remove sss
sed -i 's/ sss$//' "$root/etc/nsswitch.conf"

# Each node has its own.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/machine-id" "$root/etc/hostname" "$root/etc/hosts" "$root/etc/resolv.conf"
# A job's Python may be below root's home, and the checkout below /tmp.
chmod 0711 "$root/root"
ln -s /dev/null "$root/etc/tmpfiles.d/tmp.conf"
# What no container can do, and what would only use the processor.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer systemd-udevd.service \
  run-rpc_pipefs.mount console-getty.service; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

# A container may not change the first version's cgroups, which Slurm does on a node.
cat >"$root/etc/systemd/system/writable-cgroups.service" <<'UNIT'
[Unit]
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
ExecStart=sh -c 'for each in /sys/fs/cgroup/*/; do mountpoint -q "$each" && mount -o remount,bind,rw "$each"; done; true'

[Install]
WantedBy=sysinit.target
UNIT
chroot "$root" systemctl --quiet enable writable-cgroups.service
