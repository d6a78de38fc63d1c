#!/usr/bin/env bash
# Slurm's accounting on a controller that the platform provisions: slurmdbd with the organization's database, or with
# MariaDB on this node.
# https://slurm.schedmd.com/slurmdbd.conf.html, https://slurm.schedmd.com/accounting.html (read 2026-11-22)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"

limit=${SLURM_WAIT_SECONDS:-120}
conf=/opt/slurm/etc/slurmdbd.conf

accepts() {
  (: <"/dev/tcp/$1/$2") 2>/dev/null
}

endpoint=$SLURM_ACCOUNTING_DATABASE_ENDPOINT port=$SLURM_ACCOUNTING_DATABASE_PORT
secret_arn=$SLURM_ACCOUNTING_DATABASE_SECRET user=$SLURM_ACCOUNTING_DATABASE_USER
if [[ -n "$endpoint" ]]; then
  # The password is never in a log, and only in slurmdbd's own file.
  region=$(cut -d: -f4 <<<"$secret_arn")
  secret=$(timeout 60 aws secretsmanager get-secret-value --secret-id "$secret_arn" --region "$region" \
    --query SecretString --output text) ||
    fail "the secret $secret_arn cannot be read; check that it is there, and that the controller's role may read it"
  [[ -n "$user" ]] || user=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["username"])' <<<"$secret")
  password=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["password"])' <<<"$secret")
  storage="StorageHost=$endpoint"$'\n'"StoragePort=$port"
  storage+=$'\n'"StorageUser=$user"$'\n'"StoragePass=$password"
  wait_until "$limit" 2 accepts "$endpoint" "$port" ||
    fail "the accounting database $endpoint:$port is not reached after $limit s; check its security group"
else
  [[ "$CONTROLLER_ADDRESSES" != *,* ]] ||
    fail "several controllers need a database that outlives each of them: give the platform slurm.accounting_database"
  systemctl enable --quiet --now mariadb ||
    fail "MariaDB does not start: \`journalctl -u mariadb\` says why; without it, give the platform slurm.accounting_database"
  # Only slurmdbd's user can log in without a password.
  mariadb --batch <<SQL
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';
SQL
  storage="StorageHost=localhost"$'\n'"StorageUser=slurm"
fi

changed=
if write_file "$conf" 0600 <<CONF
AuthType=auth/munge
DbdHost=localhost
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
StorageType=accounting_storage/mysql
StorageLoc=${SLURM_ACCOUNTING_DATABASE_NAME:-slurm_acct_db}
$storage
CONF
then
  changed=1
fi
# slurmdbd refuses a configuration file of another owner.
chown slurm:slurm "$conf"
if [[ -n "$changed" ]] || ! systemctl is-active --quiet slurmdbd; then
  systemctl enable --quiet slurmdbd
  systemctl restart slurmdbd
fi
wait_until "$limit" 1 accepts localhost 6819 ||
  fail "slurmdbd does not answer after $limit s; \`journalctl -u slurmdbd\` and /var/log/slurm/slurmdbd.log say why"
[[ -z "$changed" ]] || echo "started slurmdbd"
