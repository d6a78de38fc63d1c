#!/usr/bin/env bash
# The users of an LDAP directory, by SSSD: accounts for the system, keys for sshd, and a home directory on the file system that
# all nodes share, made at the first login. Before the users of the platform file, whose names and numbers it may have.
#   DIRECTORY_WAIT_SECONDS   how long the password and the directory may take to be there (default 60)
#   DIRECTORY_RETRY_SECONDS  pause between two tries (default 5)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ -z "$DIRECTORY_URI" ]]; then
  echo "there is no directory of users, nothing to do"
  exit 0
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
shopt -s nullglob
if ! command -v sssd >/dev/null; then
  packages=("$scripts"/yours/directory/*.deb)
  ((${#packages[@]})) || fail "SSSD is not on this node's image, so that nobody of $DIRECTORY_URI has an account:" \
    "put its packages into lifecycle_scripts/yours/directory, whose README.md says how, or use an image that has it"
  said=$(DEBIAN_FRONTEND=noninteractive timeout 200 dpkg --install --force-confold "${packages[@]}" 2>&1) ||
    fail "the packages in lifecycle_scripts/yours/directory cannot be installed:" \
      "$(grep -A 1 -m 1 '^dpkg: ' <<<"$said" | xargs);" \
      "they must be all that SSSD needs, for this image's release of Ubuntu"
  echo "installed ${#packages[@]} packages"
fi

password=
if [[ -n "$DIRECTORY_SECRET" ]]; then
  # The Region is the fourth part of the ARN. The password is only in this variable and in sssd.conf.
  ask() {
    password=$(timeout 30 aws secretsmanager get-secret-value --secret-id "$DIRECTORY_SECRET" \
      --region "$(cut -d : -f 4 <<<"$DIRECTORY_SECRET")" --query SecretString --output text)
  }
  wait_until "${DIRECTORY_WAIT_SECONDS:-60}" "${DIRECTORY_RETRY_SECONDS:-5}" ask ||
    fail "the directory's password cannot be read within ${DIRECTORY_WAIT_SECONDS:-60} s, the lines above say why;" \
      "$DIRECTORY_SECRET must be there, encrypted by a key of AWS's own"
  if [[ -z "$password" || "$password" == *[$'\n\r']* || "$password" == [[:space:]]* || "$password" == *[[:space:]] ]]; then
    fail "the directory's password is empty, has several lines or spaces around it: $DIRECTORY_SECRET must hold the password" \
      "and nothing else"
  fi
fi

bundle=/etc/ssl/certs/ca-certificates.crt
# Differences between directories: how groups name their members, where IDs come from, and where keys are.
schema=$DIRECTORY_KIND mapping=false keys=sshPublicKey start_tls=false
if [[ "$DIRECTORY_KIND" == active-directory ]]; then
  # As in AWS's own script:
  # https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/setup_sssd.py
  # (read 2026-11-22)
  schema=ad mapping=true keys=altSecurityIdentities
fi
if [[ "$DIRECTORY_URI" == ldap://* ]]; then
  start_tls=true
fi
conf=$NODE_ROOT/etc/sssd/sssd.conf
put_file "$conf" 0600 <<EOF
# Written by Trainway: a change in here is lost.
[sssd]
services = nss, pam, ssh
domains = directory

[domain/directory]
id_provider = ldap
auth_provider = ldap
access_provider = permit
ldap_uri = $DIRECTORY_URI
ldap_search_base = $DIRECTORY_BASE
ldap_schema = $schema
ldap_id_mapping = $mapping
ldap_user_ssh_public_key = $keys
ldap_referrals = false
ldap_id_use_start_tls = $start_tls
ldap_tls_reqcert = demand
ldap_tls_cacert = $bundle
override_homedir = $DIRECTORY_HOMES/%u
default_shell = /bin/bash
min_id = 1000
${password:+ldap_default_bind_dn = $DIRECTORY_READER
ldap_default_authtok_type = password
ldap_default_authtok = $password}
EOF

# The system queries SSSD after its own files, so that no user of the directory can replace a user of the image.
nsswitch=$NODE_ROOT/etc/nsswitch.conf
sed -E '/^(passwd|group):/{/\<sss\>/!s/$/ sss/}' "$nsswitch" | put_file "$nsswitch" 0644
profile=$NODE_ROOT/usr/share/pam-configs/trainway-home
put_file "$profile" 0644 <<'EOF'
Name: Home directories on the file system that all nodes share, made at the first login
Default: yes
Priority: 0
Session-Type: Additional
Session:
	optional	pam_mkhomedir.so umask=0077 silent
EOF
session=$NODE_ROOT/etc/pam.d/common-session
if ! grep -q pam_sss.so "$session" || ! grep -q 'pam_mkhomedir.so umask=0077' "$session"; then
  said=$(DEBIAN_FRONTEND=noninteractive timeout 60 pam-auth-update --package --enable sss trainway-home 2>&1) ||
    fail "pam-auth-update does not let SSSD in: $(tail -n 1 <<<"$said"); the image's PAM must be as its packages left it"
fi
# Under root squash, the root user of another node creates it.
mkdir -p "$NODE_ROOT$DIRECTORY_HOMES" 2>/dev/null || true

# The settings with which SSSD was last started. If this step ends before it starts SSSD, the next run starts it.
started=$NODE_ROOT/var/lib/trainway/sssd-settings
now=$(sha256sum <"$conf")
if ! systemctl is-active --quiet sssd || [[ ! -e "$started" || "$(<"$started")" != "$now" ]]; then
  systemctl enable --quiet sssd
  timeout 60 systemctl restart sssd || fail "SSSD does not start; \`journalctl -u sssd\` on this node says why"
  put_file "$started" 0600 <<<"$now"
fi

# SSSD continues to try. Users of the platform file and of the image can work meanwhile, so the step does not fail.
limit=${DIRECTORY_WAIT_SECONDS:-60}
if why=$(timeout "$((limit + 20))" python3 "$scripts/directory.py" "$DIRECTORY_URI" "$bundle" "$limit" 2>&1); then
  echo "the users of $DIRECTORY_URI are there"
else
  echo "WARNING: the users of $DIRECTORY_URI are not there yet: ${why:-no answer}"
fi
