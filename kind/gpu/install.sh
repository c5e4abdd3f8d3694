#!/bin/sh
# Puts the files beside this script in their places in a node, and starts the unit that makes the device
# nodes. Safe to run again; what is there already is left alone.
set -eu
cd "$(dirname "$0")"

place() { # FILE PATH MODE: by rename, so that no reader sees half of it
    mkdir -p "$(dirname "$2")"
    if ! cmp -s "$1" "$2"; then
        cp "$1" "$2.kailab"
        mv -f "$2.kailab" "$2"
    fi
    chmod "$3" "$2"
}

link() { # PATH TARGET: a symbolic link, by rename
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

# In place: running pods have this very file bind-mounted, and a rename would leave them with the old one.
mkdir -p /etc/kailab
cmp -s nvml.conf /etc/kailab/nvml.conf || cat nvml.conf >/etc/kailab/nvml.conf

# systemd does not answer yet in a node that is just starting.
tries=0
until systemctl show -p Version >/dev/null 2>&1 || [ $tries -ge 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done

# Only when needed: a reload (enable does one too) makes systemd set the device rules of running pods anew.
for unit in kailab-gpu.service kailab-gpu-usage.service; do
    place $unit /etc/systemd/system/$unit 0644
    systemctl is-enabled --quiet $unit || systemctl --quiet enable $unit
    [ "$(systemctl show -p NeedDaemonReload --value $unit)" != yes ] || systemctl daemon-reload
    systemctl restart $unit
done

# Last: from here on the runtime hands the devices out.
place cdi.json /etc/cdi/kailab.json 0644
