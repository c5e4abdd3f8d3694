#!/bin/sh
# Makes the device nodes of the simulated GPUs that /etc/kailab/nvml.conf lists, and removes those it does
# not list. No driver stands behind them. The file that says what runs on the GPUs is made too, empty: containers
# get it mounted, so it has to be there before the first of them. DEV, CONF and USAGE are for tests.
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
# The real nvidia-uvm has a major number that the kernel picks at run time, which may be another driver's on
# this machine. 195:253 belongs to nobody.
device nvidia-uvm 253

[ -e "$usage" ] || : >"$usage"
