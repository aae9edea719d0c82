#!/bin/sh
# Runs finding 000000 (signature 5687116e) again, five times, or as the arguments say: they go to `warren replay`,
# such as -n 20 or --junit FILE. Ends with 77 when it failed, 70 for a hang, 0 when nothing failed, 1 or 2 when it could not run.
# WARREN=PROGRAM takes another Warren, TARGETS=FOLDER another folder of targets.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit 1
warren=${WARREN:-warren}
targets=${TARGETS:-''}
command -v "$warren" >/dev/null 2>&1 || warren=warren
command -v "$warren" >/dev/null 2>&1 || { echo "reproduce.sh: no program warren: name it with WARREN=" >&2; exit 1; }
[ $# -gt 0 ] || set -- -n 5
# Elsewhere than where it was found, Warren looks for the target by itself.
[ -d "$targets" ] && set -- --targets "$targets" "$@"
exec "$warren" replay "$here/matched.toml" -s 3 "$@"
