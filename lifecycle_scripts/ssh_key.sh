#!/usr/bin/env bash
# Create the key pair with which a user connects from node to node. It is in the home directory, which all nodes share,
# so the first node creates it. Runs as the user, at every login and when the home directory is created.
set -euo pipefail
umask 077

directory=$HOME/.ssh
key=$directory/id_ed25519
mkdir -p "$directory"
if [[ ! -e "$key" ]]; then
  # A unique name, because logins on several nodes, and several on this one, may do this at the same time.
  new=$(mktemp -d "$directory/.new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  ssh-keygen -q -t ed25519 -N '' -C "$(id -un)@cluster" -f "$new/key"
  # If several nodes do this at once, the first one's key stays: creating a link is atomic, on Lustre and NFS as well.
  ln "$new/key" "$key" 2>/dev/null || [[ -e "$key" ]]
fi
public=$(ssh-keygen -y -P '' -f "$key" 2>/dev/null) || exit 0 # One with a passphrase is the user's own affair.
if [[ ! -e "$key.pub" ]]; then
  echo "$public" >"$key.pub.$$"
  mv "$key.pub.$$" "$key.pub"
fi
keys=$directory/authorized_keys
read -r _ encoded _ <<<"$public"
if ! grep -qsF "$encoded" "$keys"; then
  # Replace the whole file at once: several nodes that append to it would overwrite each other.
  {
    cat "$keys" 2>/dev/null || true
    echo "$public"
  } >"$keys.$$"
  mv "$keys.$$" "$keys"
fi
