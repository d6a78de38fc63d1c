#!/usr/bin/env bash
# Locked memory and huge pages: RDMA pins the buffers that it sends from, and libfabric prefers huge pages for them.
set -euo pipefail

# write_if_changed FILE TEXT: true if the file was not already so.
write_if_changed() {
  if [[ -f "$1" && "$(<"$1")" == "$2" ]]; then
    return 1
  fi
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1"
}

limits=$NODE_ROOT/etc/security/limits.d/90-trainway.conf
if write_if_changed "$limits" $'* soft memlock unlimited\n* hard memlock unlimited\n* soft nofile 1048576\n* hard nofile 1048576'; then
  echo "wrote $limits"
fi

pages=$NODE_ROOT/proc/sys/vm/nr_hugepages
if ((HUGE_PAGES_2MIB > 0)); then
  if write_if_changed "$NODE_ROOT/etc/sysctl.d/90-trainway.conf" "vm.nr_hugepages = $HUGE_PAGES_2MIB"; then
    echo "reserving $HUGE_PAGES_2MIB huge pages from now on"
  fi
  # Never fewer: what the image reserved may be in use.
  if (($(<"$pages") < HUGE_PAGES_2MIB)); then
    echo "$HUGE_PAGES_2MIB" >"$pages"
  fi
  # The kernel gives what it can find in one piece, without an error.
  if (($(<"$pages") < HUGE_PAGES_2MIB)); then
    echo "the kernel reserved only $(<"$pages") of $HUGE_PAGES_2MIB huge pages: memory is too fragmented or too small"
    exit 1
  fi
fi
