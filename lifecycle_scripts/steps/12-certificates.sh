#!/usr/bin/env bash
# Install the organization's CA certificates of yours/certificates: in the system's trust store, and, for programs with
# a store of their own, as environment variables of every login and so of the jobs submitted there.
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if command -v update-ca-certificates >/dev/null; then
  # Debian and Ubuntu: https://manpages.ubuntu.com/manpages/questing/man8/update-ca-certificates.8.html (read 2026-11-22)
  store=/usr/local/share/ca-certificates bundle=/etc/ssl/certs/ca-certificates.crt update=(update-ca-certificates --fresh)
elif command -v update-ca-trust >/dev/null; then
  # Amazon Linux, which follows Red Hat:
  # https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/7/html/security_guide/sec-shared-system-certificates
  # (read 2026-11-22)
  store=/etc/pki/ca-trust/source/anchors bundle=/etc/pki/tls/certs/ca-bundle.crt update=(update-ca-trust extract)
else
  fail "this image has neither update-ca-certificates nor update-ca-trust, so that it trusts what it trusts and no more:" \
    "use an image with the package ca-certificates"
fi

changes=$(python3 "$scripts/certificates.py" install "$scripts/yours/certificates" "$NODE_ROOT$store" "$NODE_ROOT$bundle" \
  "${update[@]}" 2>&1) || fail "the certificates in lifecycle_scripts/yours/certificates are not trusted: $changes"
[[ -z "$changes" ]] || echo "$changes"

profile=$NODE_ROOT/etc/profile.d/trainway-certificates.sh
mounts=$NODE_ROOT/etc/enroot/mounts.d/90-trainway-certificates.fstab
shopt -s nullglob
ours=("$NODE_ROOT$store"/trainway-*.crt)
if ((${#ours[@]} == 0)); then
  if [[ -n "$changes" || -e "$profile" ]]; then
    rm -f "$profile" "$mounts"
    echo "the image's authorities are trusted, and no others any more"
  else
    echo "there are no certificates of the organization's, nothing to do"
  fi
  exit 0
fi

# Replace the stores of OpenSSL, Python's requests, and botocore by the system's. curl, git, and Go read the system's
# store or SSL_CERT_FILE, and pip reads the variable of requests.
# https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification
# https://github.com/boto/botocore/blob/develop/botocore/configprovider.py
# https://pip.pypa.io/en/stable/topics/https-certificates/ (all read 2026-11-22)
write_file "$profile" 0644 <<EOF && echo "every login has them"
# Written by Trainway: a change in here is lost.
export SSL_CERT_FILE=$bundle REQUESTS_CA_BUNDLE=$bundle AWS_CA_BUNDLE=$bundle
EOF
# Jobs pass these variables into their containers, which must have the same path.
# https://github.com/NVIDIA/enroot/blob/master/doc/configuration.md (read 2026-11-22)
if [[ "$ORCHESTRATOR" == hyperpod-slurm ]]; then
  write_file "$mounts" 0644 <<<"$bundle $bundle none x-create=file,bind,ro,nosuid,nodev" &&
    echo "every container of enroot's has them"
fi
# These daemons read the store once, when they start.
for daemon in containerd docker; do
  if systemctl is-active --quiet "$daemon" 2>/dev/null; then
    since=$(date -d "$(systemctl show --property=ActiveEnterTimestamp --value "$daemon")" +%s)
    if ((since <= $(stat -c %Y "$NODE_ROOT$bundle"))); then
      # Times are in seconds: a daemon that started in a later second than the bundle is current.
      sleep 1
      timeout 60 systemctl restart "$daemon" ||
        fail "$daemon does not start again with the new certificates; \`journalctl -u $daemon\` says why"
      echo "restarted $daemon"
    fi
  fi
done
echo "${#ours[@]} certificates of the organization's are trusted"
