#!/usr/bin/env bash
# pyxis provides --container-image of srun and sbatch. It is compiled here, because Slurm loads no plugin compiled for
# another release, and the release depends on the image. The image has the compiler, make, and Slurm's headers, and
# AWS's script compiles pyxis there, too. AWS's page about the image's other contents could not be read.
# https://github.com/NVIDIA/pyxis#installation
# https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/5.sagemaker-hyperpod/LifecycleScripts/base-config/utils/install_enroot_pyxis.sh
# (read 2026-11-22)
#   NODE_ROOT    prefix of every path that is read or written; empty on a node
#   SLURM_HOME   where HyperPod has Slurm (default /opt/slurm)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lifecycle_scripts/lib.sh
source "$here/../lib.sh"
root=${NODE_ROOT:-}
slurm=${SLURM_HOME:-/opt/slurm}
installed=/opt/trainway/pyxis
plugin=$installed/spank_pyxis.so

plugstack=$slurm/etc/plugstack.conf
if grep --quiet --no-messages --recursive 'pyxis' "$plugstack" "$slurm/etc/plugstack.conf.d" &&
  ! grep --quiet --no-messages "$plugin" "$plugstack"; then
  echo "the image has a pyxis of its own"
  exit 0
fi

source=$(compgen -G "$here/../yours/packages/pyxis-*.tar") ||
  fail "pyxis was not delivered: deploy the platform again, then replace the node"
[[ -e "$slurm/include/slurm/spank.h" ]] ||
  fail "$slurm/include/slurm/spank.h is absent, and pyxis cannot be compiled without: give the node groups HyperPod's image"
for tool in make gcc; do
  command -v "$tool" >/dev/null || fail "this image has no $tool to compile pyxis: give the node groups HyperPod's image"
done

changed=false
version=$("$slurm/sbin/slurmd" -V)
of="$version, $(sha256sum "$source" | cut -d ' ' -f 1)"
if [[ ! -e "$root$plugin" || "$(cat "$root$installed/of" 2>/dev/null)" != "$of" ]]; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  tar --extract --file "$source" --directory "$build" --strip-components=1
  # Pass it in the environment: an argument would replace what the Makefile adds to it.
  said=$(CPPFLAGS="-I$slurm/include" timeout --kill-after=5 180 make --directory="$build" 2>&1) ||
    fail "pyxis does not compile for $version: $(tail -n 1 <<<"$said"); take another version in delivery/node_packages.yaml"
  # Write the stamp last: without it, the next run compiles again.
  mkdir -p "$root$installed"
  rm -f "$root$installed/of"
  put_file "$root$plugin" 0755 <"$build/spank_pyxis.so"
  put_file "$root$installed/of" 0644 <<<"$of"
  changed=true
  echo "compiled pyxis for $version"
fi

# Required: with an optional plugin that does not load, a job would run outside of its container. Use one line instead
# of an included file, because nodes that fetch their configuration from the controller do not receive included files.
# https://github.com/SchedMD/slurm, doc/man/man8/spank.8 and doc/html/configless_slurm.shtml (read 2026-11-22)
if ! grep --quiet --no-messages --line-regexp "required $plugin" "$plugstack"; then
  {
    cat "$plugstack" 2>/dev/null || true
    echo "required $plugin"
  } | put_file "$plugstack" 0644
  changed=true
  echo "srun knows --container-image from now on"
fi

if [[ "$changed" == true ]]; then
  # Running jobs continue. Both read plugstack.conf only at their start or on request.
  if [[ "$NODE_ROLE" == controller ]] && systemctl is-active --quiet slurmctld; then
    timeout --kill-after=5 60 "$slurm/bin/scontrol" reconfigure || fail "slurmctld does not read its configuration again:" \
      "\`journalctl -u slurmctld\` on this node says why"
  elif systemctl is-active --quiet slurmd; then
    timeout --kill-after=5 60 systemctl restart slurmd ||
      fail "slurmd does not start with pyxis: \`journalctl -u slurmd\` on this node says why"
  fi
fi
echo "pyxis is set up"
