#!/bin/sh
# Reports the GPU path in a node: sections that begin with "@@@ NAME", with the output of programs. Changes nothing.
# For nodes with simulated and with real GPUs; node_facts.py reads it.
section() { echo "@@@ $1"; }

section units
for unit in containerd kubelet; do
    echo "$unit $(systemctl is-active $unit 2>/dev/null)"
done

section changed # files of containerd's configuration that are newer than its start
start=$(systemctl show -p ActiveEnterTimestamp --value containerd 2>/dev/null)
start=$([ -n "$start" ] && date -d "$start" +%s 2>/dev/null)
for file in /etc/containerd/config.toml /etc/containerd/conf.d/*.toml /etc/containerd/config.d/*.toml; do
    [ -f "$file" ] && [ -n "$start" ] && [ "$(stat -c %Y "$file")" -gt "$start" ] && echo "$file"
done

section containerd
containerd config dump 2>&1

section toolkit
cat /etc/nvidia-container-runtime/config.toml 2>/dev/null

section programs
for program in nvidia-container-runtime nvidia-ctk nvidia-cdi-hook; do
    [ -x "/usr/bin/$program" ] && echo "/usr/bin/$program"
done

section devices
for node in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm; do
    if [ -c "$node" ]; then
        numbers=$(stat -c '%t %T' "$node")
        echo "$node $((0x${numbers% *})):$((0x${numbers#* }))"
    elif [ -e "$node" ]; then
        echo "$node $(stat -c %F "$node" | tr ' ' -)"
    fi
done

section driver
cat /proc/driver/nvidia/version 2>/dev/null
sed -n '/^ModifyDeviceFiles/p' /proc/driver/nvidia/params 2>/dev/null
for library in /usr/lib/*/libnvidia-ml.so.*.* /usr/lib64/libnvidia-ml.so.*.*; do
    [ -f "$library" ] && echo "library $library"
done

section cdi
for file in /etc/cdi/*.json /etc/cdi/*.yaml /var/run/cdi/*.json /var/run/cdi/*.yaml; do
    [ -f "$file" ] || continue
    echo "@@ $file"
    cat "$file"
done

section files # what the CDI specs mount, and libraries of the driver that are directories
{
    cat /etc/cdi/* /var/run/cdi/* 2>/dev/null |
        sed -n 's/.*hostPath"\{0,1\}: *"\{0,1\}\([^",]*\)"\{0,1\},\{0,1\} *$/\1/p'
    find /usr/lib /usr/lib64 -maxdepth 2 -type d \( -name 'libnvidia*.so*' -o -name 'libcuda*.so*' \) 2>/dev/null
} | sort -u | while read -r path; do
    if [ -d "$path" ]; then
        case $path in *.so*) echo "directory $path" ;; *) echo "file $path" ;; esac
    elif [ -e "$path" ]; then
        echo "file $path"
    else
        echo "missing $path"
    fi
done

section nvml
cat /etc/kailab/nvml.conf 2>/dev/null

section smi
if command -v nvidia-smi >/dev/null; then
    timeout 10 nvidia-smi -L 2>&1
    echo "rc $?"
fi

complaints() { # UNIT PATTERN: recent errors and warnings of its last run
    run=$(systemctl show -p InvocationID --value "$1" 2>/dev/null)
    [ -n "$run" ] || return 0
    journalctl -u "$1" "_SYSTEMD_INVOCATION_ID=$run" --since -10min -n 600 -o cat --no-pager 2>/dev/null |
        grep -E "$2" | tail -n 80
}

section containerd-log
complaints containerd '^containerd: |level=(error|fatal|warning)'

section kubelet-log
complaints kubelet '^[EF][0-9]|"command failed"'
exit 0
