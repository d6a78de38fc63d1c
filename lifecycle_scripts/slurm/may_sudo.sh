#!/usr/bin/env bash
# Check that PAM_USER administers the node: root, or a user whom sudo allows everything.
[[ "$PAM_USER" == root ]] || sudo --non-interactive --list --other-user="$PAM_USER" /bin/sh >/dev/null 2>&1
