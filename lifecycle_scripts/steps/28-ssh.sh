#!/usr/bin/env bash
# SSH between the nodes of a Slurm cluster, which asks nothing: every node has its host key signed by the cluster's authority,
# which every node knows, and every user has one key in the home directory that all nodes share. Nobody logs in as root, or by
# password.
#
# An authority instead of a list of host keys: nodes come and go, and those that are there need not be told. Its private key is
# in a directory of the shared file system that only root enters, so that each node signs its own key: root of a node could
# write a shared list as well. ssh-keygen(1), CERTIFICATES.
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "$ORCHESTRATOR" != hyperpod-slurm ]]; then
  echo "nobody goes from node to node on this cluster, nothing to do"
  exit 0
fi
if [[ -z "$FSX_MOUNT_PATH" ]]; then
  echo "the nodes share no file system to keep their authority on, nothing to do"
  exit 0
fi
# Time limit of each operation on the shared file system, in seconds.
limit=60
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
installed=/opt/trainway
directory=$NODE_ROOT$FSX_MOUNT_PATH/.trainway
authority=$directory/ssh/host_ca
key=$NODE_ROOT/etc/ssh/ssh_host_ed25519_key

# make_authority: the first node creates it for all nodes: creating a link is atomic, on Lustre and NFS as well.
make_authority() {
  mkdir -p "$directory"
  # Another node may do this at the same time.
  mkdir -m 0700 "$directory/ssh" 2>/dev/null || [[ -d "$directory/ssh" ]]
  [[ -e "$authority" ]] && return
  local new=$directory/ssh/.new.$HOSTNAME
  rm -rf "$new"
  mkdir -m 0700 "$new"
  ssh-keygen -q -t ed25519 -N '' -C "authority of the cluster's hosts" -f "$new/key"
  ln "$new/key" "$authority" 2>/dev/null || [[ -e "$authority" ]]
  rm -rf "$new"
}
export -f make_authority
export directory authority HOSTNAME
if ! said=$(timeout "$limit" bash -c 'set -e; make_authority' 2>&1); then
  if [[ "$said" == *"Permission denied"* ]]; then
    echo "root may not write to $FSX_MOUNT_PATH, so that the first ssh to a node asks for its key;" \
      "name the nodes in storage.lustre.root_squash.but_not to have it answered"
    exit 0
  fi
  fail "no authority of the hosts can be made in $directory within $limit s: ${said:-no answer};" \
    "ls -l there must answer as root on this node"
fi
for path in "$directory:7[05][05]" "$directory/ssh:700" "$authority:600"; do
  # If others may write there, somebody else could have created it first.
  mode=${path##*:} path=${path%:*}
  # shellcheck disable=SC2053 # a pattern
  if [[ "$(timeout "$limit" stat -c %u:%a "$path")" != 0:$mode ]]; then
    fail "$path is $(timeout "$limit" stat -c 'of %U with mode %a' "$path"), and not root's alone: find out who made it," \
      "remove $directory/ssh, and run this again"
  fi
done
public=$(ssh-keygen -y -f "$authority")

[[ -e "$key" ]] || ssh-keygen -q -t ed25519 -N '' -C "root@$HOSTNAME" -f "$key"
# All names and addresses of this node.
mapfile -t names < <({
  hostname
  hostname -f || true
  hostname -I | tr ' ' '\n'
} 2>/dev/null | grep -v '^$' | sort -u)
# described CERTIFICATE: print the names in a certificate, and its signer.
described() {
  ssh-keygen -L -f "$1" 2>/dev/null | awk '
    /Public key:/ { print $4 }
    /Signing CA:/ { print $4 }
    /Critical Options:/ { in_names = 0 }
    in_names { print $1 }
    /Principals:/ { in_names = 1 }'
}
fingerprint() { ssh-keygen -l -f "$1" | cut -d ' ' -f 2; }
wanted=$(fingerprint "$key" && fingerprint "$authority" && printf '%s\n' "${names[@]}")
new=$NODE_ROOT/etc/ssh/.trainway.new
# An interrupted run may have left it, even after it had signed the key.
rm -rf "$new"
if [[ ! -e "$key-cert.pub" || "$(described "$key-cert.pub")" != "$wanted" ]]; then
  mkdir -m 0700 "$new"
  ssh-keygen -y -f "$key" >"$new/key.pub"
  ssh-keygen -q -s "$authority" -I "$HOSTNAME" -h -n "$(
    IFS=,
    echo "${names[*]}"
  )" "$new/key.pub"
  mv "$new/key-cert.pub" "$key-cert.pub"
  rm -r "$new"
  echo "this node's key is signed for ${names[*]}"
fi

put_file "$NODE_ROOT/etc/ssh/trainway/known_hosts" 0644 <<<"@cert-authority * $public"
# sshd and ssh use the first value that they read, so these file names sort first.
settings=$NODE_ROOT/etc/ssh/sshd_config.d/00-trainway.conf
keys_of_the_directory=
if [[ -n "$DIRECTORY_URI" ]]; then
  keys_of_the_directory=$'AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys %u\nAuthorizedKeysCommandUser nobody'
fi
put_file "$settings" 0644 <<EOF
# Written by Trainway: a change in here is lost.
HostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
# Keys of the users, and of the platform file.
AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/trainway/authorized_keys/%u
$keys_of_the_directory
EOF
put_file "$NODE_ROOT/etc/ssh/ssh_config.d/00-trainway.conf" 0644 <<'EOF'
# Written by Trainway: a change in here is lost.
GlobalKnownHostsFile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2 /etc/ssh/trainway/known_hosts
EOF
put_file "$NODE_ROOT$installed/ssh_key.sh" 0755 <"$scripts/ssh_key.sh"
homes="$FSX_MOUNT_PATH/*"
[[ -z "$HOMES_MOUNT_PATH" ]] || homes+=" | $HOMES_MOUNT_PATH/*"
put_file "$NODE_ROOT/etc/profile.d/trainway-ssh-key.sh" 0644 <<EOF
# The key with which a user connects from node to node, for users whose home directory all nodes share.
case \$HOME in
  $homes)
    [ -e "\$HOME/.ssh/id_ed25519.pub" ] || timeout 10 bash $installed/ssh_key.sh || true
    ;;
esac
EOF

# The settings that sshd last read. If this step ends before it reloads sshd, the next run reloads it.
told=$NODE_ROOT/var/lib/trainway/sshd-settings
now=$(cat "$settings" "$key-cert.pub" | sha256sum)
if [[ ! -e "$told" || "$(<"$told")" != "$now" ]]; then
  mkdir -p /run/sshd # sshd's own unit makes it, where that has run.
  if ! said=$(sshd -t 2>&1); then
    # sshd would not start again with these settings.
    rm "$settings"
    fail "sshd refuses its settings and keeps the old ones: $said; look in /etc/ssh/sshd_config.d for what is against them"
  fi
  if [[ $'\n'$(sshd -T)$'\n' != *$'\npermitrootlogin no\n'* ]]; then
    fail "sshd does not read $settings first, so that root or a password may log in: /etc/ssh/sshd_config must begin with" \
      "\`Include /etc/ssh/sshd_config.d/*.conf\`, as Debian's and Ubuntu's does"
  fi
  systemctl try-reload-or-restart ssh.service
  put_file "$told" 0644 <<<"$now"
  echo "sshd has its new settings"
else
  echo "ssh between nodes asks nothing, as before"
fi
