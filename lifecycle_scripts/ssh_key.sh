#!/usr/bin/env bash
# The key pair with which a user goes from node to node: in the home directory, which all nodes share, so that it is made once,
# on whichever node is first. Runs as the user, at every login and when the home directory is made.
set -euo pipefail
umask 077

directory=$HOME/.ssh
key=$directory/id_ed25519
mkdir -p "$directory"
if [[ ! -e "$key" ]]; then
  # A name that nobody else has: logins on several nodes, and several on this one, may be at it at once.
  new=$(mktemp -d "$directory/.new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  ssh-keygen -q -t ed25519 -N '' -C "$(id -un)@cluster" -f "$new/key"
  # Of several nodes that do this at once, the first one's stays: a link is made or is not, on Lustre and NFS as well.
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
  # All of the file at once: several nodes that append to it would write over each other.
  {
    cat "$keys" 2>/dev/null || true
    echo "$public"
  } >"$keys.$$"
  mv "$keys.$$" "$keys"
fi
