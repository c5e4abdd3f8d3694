#!/bin/sh
# Installs the files next to this script in a node and starts the units. Safe to run again: unchanged files stay.
set -eu
cd "$(dirname "$0")"

place() { # FILE PATH MODE: renames, so that readers never see a partial file
    mkdir -p "$(dirname "$2")"
    if ! cmp -s "$1" "$2"; then
        cp "$1" "$2.kailab"
        mv -f "$2.kailab" "$2"
    fi
    chmod "$3" "$2"
}

link() { # PATH TARGET: replaces a symbolic link by renaming
    if [ "$(readlink "$1")" != "$2" ]; then
        ln -sfn "$2" "$1.kailab"
        mv -fT "$1.kailab" "$1"
    fi
}

library=$(cat library-path)
folder=$(dirname "$library")
place libnvidia-ml.so.1 "$library" 0755
place nvidia-smi "$folder/nvidia-smi" 0755
place gpu-usage "$folder/gpu-usage" 0755
place SHA256SUMS "$folder/SHA256SUMS" 0644
link /usr/bin/nvidia-smi "$folder/nvidia-smi"
link /usr/local/lib/kailab/gpu-usage "$folder/gpu-usage"
place config.toml /etc/nvidia-container-runtime/config.toml 0644
place gpu-devices /usr/local/lib/kailab/gpu-devices 0755

# In place: running pods have this inode bind-mounted, and would keep the old file after a rename.
mkdir -p /etc/kailab
cmp -s nvml.conf /etc/kailab/nvml.conf || cat nvml.conf >/etc/kailab/nvml.conf

# systemd does not respond yet while the node starts.
tries=0
until systemctl show -p Version >/dev/null 2>&1 || [ $tries -ge 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done

# Only if needed: a reload, also by enable, makes systemd reset the device rules of running pods.
for unit in kailab-gpu.service kailab-gpu-usage.service; do
    place $unit /etc/systemd/system/$unit 0644
    systemctl is-enabled --quiet $unit || systemctl --quiet enable $unit
    [ "$(systemctl show -p NeedDaemonReload --value $unit)" != yes ] || systemctl daemon-reload
    systemctl restart $unit
done

# Last: from now on, the runtime injects the devices.
place cdi.json /etc/cdi/kailab.json 0644
