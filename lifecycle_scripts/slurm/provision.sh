#!/usr/bin/env bash
# Provision Slurm on a cluster that the platform configures: munge with the cluster's key, the configuration on
# controllers, and the daemon of the node's role. provision.sh PARAMETERS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"

parameters=$1
limit=${SLURM_WAIT_SECONDS:-120}
etc=/opt/slurm/etc
shared=$FSX_MOUNT_PATH/.trainway/slurm/$CLUSTER_NAME
key=$shared/munge.key
name=ip-${NODE_ADDRESS//./-}

[[ -n "$CONTROLLER_ADDRESSES" ]] || fail "the resource config names no controller, and without one there is no Slurm"
[[ -n "$FSX_MOUNT_PATH" ]] ||
  fail "there is no shared file system, and munge's key comes to the nodes on one: give the cluster FSx for Lustre"

# Others may traverse the directory, but only root may have created it: munge trusts whoever creates the key.
make_shared() {
  local directory=$FSX_MOUNT_PATH part
  for part in .trainway slurm "$CLUSTER_NAME"; do
    directory+=/$part
    mkdir -m 0711 "$directory" 2>/dev/null || true
    [[ -d "$directory" && ! -L "$directory" && "$(stat -c %u "$directory")" == 0 ]] ||
      fail "$directory is not root's own directory: take it away; under root squash let root of the nodes write there"
  done
}

if [[ "$NODE_ROLE" == controller ]]; then
  make_shared
  new=$shared/.key.$(hostname)
  if [[ ! -s "$key" ]]; then
    # One of several controllers creates it: creating a link fails if it exists.
    # Remove the temporary file before writing it: a killed run may have left it as another name of the key.
    rm -f "$new"
    (umask 077 && dd if=/dev/urandom of="$new" bs=128 count=1 status=none)
    ln "$new" "$key" 2>/dev/null || true
    echo "made the cluster's munge key"
  fi
  rm -f "$new"
fi
wait_until "$limit" 1 test -s "$key" ||
  fail "$key is not there after $limit s: a controller makes it, and none has; see its provisioning.log"
install -d -o munge -g munge -m 0700 /etc/munge
if write_file /etc/munge/munge.key 0400 <"$key" || ! systemctl is-active --quiet munge; then
  chown munge:munge /etc/munge/munge.key
  systemctl enable --quiet munge
  systemctl restart munge
  echo "started munge with the cluster's key"
fi
# A run that was killed between the two lines above has not set the owner yet.
chown munge:munge /etc/munge/munge.key

started() {
  systemctl is-active --quiet "$1"
}

case $NODE_ROLE in
  controller)
    install -d -o slurm -g slurm -m 0755 /var/log/slurm /var/spool/slurmctld
    install -d -o slurm -g slurm -m 0700 "$shared/state"
    python3 "$here/../node_facts.py" --cluster "$SAGEMAKER_RESOURCE_CONFIG_PATH" "$parameters" |
      python3 "$here/../slurm_conf.py" "$etc" "$shared"
    if [[ -n "$SLURM_ACCOUNTS_S3_URI$SLURM_ACCOUNTING_DATABASE_ENDPOINT" ]]; then
      bash "$here/accounting.sh"
    fi
    systemctl enable --quiet slurmctld
    ;;
  compute)
    install -d -m 0755 /var/log/slurm /var/spool/slurmd
    ;;
  login)
    # Slurm's commands fetch their configuration from the controllers in this file.
    line="export PATH=\$PATH:/opt/slurm/bin SLURM_CONF_SERVER=$CONTROLLER_ADDRESSES"
    if write_file /etc/profile.d/90-trainway-slurm.sh 0644 <<<"$line"; then
      echo "Slurm's commands ask $CONTROLLER_ADDRESSES"
    fi
    ;;
esac

if [[ "$NODE_ROLE" == controller ]] && ! started slurmctld; then
  bash "$here/platform_settings.sh" "$parameters"
  started slurmctld || systemctl start slurmctld
  echo "started slurmctld"
fi

export SLURM_CONF_SERVER=$CONTROLLER_ADDRESSES

controller_answers() {
  timeout 10 scontrol ping 2>/dev/null | grep -q ' UP'
}

# A node that registered itself is known as well, but has to report its resources again.
node_is_configured() {
  local said
  said=$(timeout 10 scontrol --oneliner show node "$name" 2>/dev/null) && [[ "$said" != *DYNAMIC* ]]
}

node_is_up() {
  local state
  state=$(timeout 10 scontrol --oneliner show node "$name" 2>/dev/null | grep -o ' State=[^ ]*') || return 1
  [[ "$state" != *UNKNOWN* && "$state" != *DOWN* && "$state" != *NOT_RESPONDING* && "$state" != *\** ]]
}

if [[ "$NODE_ROLE" == compute ]] && ! started slurmd; then
  # Slurm prefers a file on the node over the controller.
  rm -f "$etc/slurm.conf"
  wait_until "$limit" 1 controller_answers ||
    fail "no controller ($CONTROLLER_ADDRESSES) answers after $limit s; see its provisioning.log, and whether port 6817 is open"
  options="--conf-server $CONTROLLER_ADDRESSES -N $name"
  node_is_configured || options+=" -Z --conf Feature=$NODE_GROUP"
  # Debian's unit requires a slurm.conf on the node.
  put_file /etc/systemd/system/slurmd.service.d/90-trainway.conf 0644 <<CONF
[Unit]
ConditionPathExists=

[Service]
Environment="SLURMD_OPTIONS=$options"
CONF
  systemctl daemon-reload
  systemctl enable --quiet --now slurmd
  if ! wait_until "$limit" 1 node_is_up; then
    said=$(timeout 10 scontrol show node "$name" 2>&1 | grep -oE '(State=[^ ]*|Reason=.*|slurm_.*)' | paste -sd ' ' || true)
    fail "slurmd runs, and the controller does not have $name as up after $limit s: ${said:-it gives no answer}." \
      "\`journalctl -u slurmd\` says more"
  fi
  echo "started slurmd; $name is known to the controller"
fi
