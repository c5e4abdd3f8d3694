#!/bin/sh
# Creates device nodes, without a driver, for the simulated GPUs in /etc/kailab/nvml.conf, and removes those of other
# GPUs. Also creates an empty usage file, which must exist before the first container mounts it. DEV, CONF and USAGE are
# for tests.
set -eu
dev=${DEV:-/dev}
conf=${CONF:-/etc/kailab/nvml.conf}
usage=${USAGE:-$(dirname "$conf")/usage}

device() { # NAME MINOR: a character device of NVIDIA's major number, readable and writable for all
    if [ ! -c "$dev/$1" ] || [ "$(stat -c %t:%T "$dev/$1")" != "$(printf 'c3:%x' "$2")" ]; then
        rm -f "$dev/$1"
        mknod "$dev/$1" c 195 "$2"
    fi
    chmod 0666 "$dev/$1"
}

wanted=" "
while read -r word rest; do
    [ "$word" = gpu ] || continue
    minor=${rest#*minor=}
    minor=${minor%% *}
    device "nvidia$minor" "$minor"
    wanted="$wanted$minor "
done <"$conf"

for node in "$dev"/nvidia[0-9]*; do
    [ -e "$node" ] || continue
    minor=${node##*/nvidia}
    case $wanted in
    *" $minor "*) ;;
    *) rm -f "$node" ;;
    esac
done

device nvidiactl 255
# The kernel picks the real nvidia-uvm's major number at run time; on this machine it may belong to another driver.
# 195:253 is unused.
device nvidia-uvm 253

[ -e "$usage" ] || : >"$usage"
