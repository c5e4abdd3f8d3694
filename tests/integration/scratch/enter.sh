#!/bin/sh
# Runs in new mount, process and network namespaces and makes them a machine of their own; then is its init.
#   enter.sh HOME [PATH...]
# HOME is a real directory, seen at the same place inside: HOME/overlay gets what is written, HOME/docker is the
# engine's data, HOME/driver is laid over the root. PATHs are shared with the machine as they are.
set -eu
home=$1
new=$home/root
mount --make-rprivate /

mkdir -p "$new" "$home/overlay" "$home/docker"
mount -t tmpfs scratch "$home/overlay"
mkdir "$home/overlay/upper" "$home/overlay/work"
mount -t overlay scratch -o "lowerdir=/,upperdir=$home/overlay/upper,workdir=$home/overlay/work" "$new" || exit 77
for path in "$@"; do
    [ -d "$path" ] || continue
    mkdir -p "$new$path"
    mount --bind "$path" "$new$path"
done

# devices of its own: what is made here is not in the machine's /dev
mount -t tmpfs -o mode=755 dev "$new/dev"
mkdir "$new/dev/pts" "$new/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$new/dev/pts"
mount -t tmpfs shm "$new/dev/shm"
ln -s pts/ptmx "$new/dev/ptmx"
ln -s /proc/self/fd "$new/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${number%:*}" "$new/dev/${number#*:}"
done
while read -r name major minor; do
    mknod -m 0666 "$new/dev/$name" c "$major" "$minor"
done <"$home/devices"

mount -t proc proc "$new/proc"
mount -t sysfs sysfs "$new/sys" # the new network's own
mount --rbind /sys/fs/cgroup "$new/sys/fs/cgroup"
mount -t tmpfs run "$new/run"
mkdir -p "$new/var/lib/docker"
mount --bind "$home/docker" "$new/var/lib/docker"

# a driver that the kernel does not have
mount -t tmpfs driver "$new/proc/driver"
cp -a "$home/proc-driver/." "$new/proc/driver/"
cp -a "$home/driver/." "$new/"

# no engine was set up here, and this is how its owner configured it
rm -rf "$new/etc/docker" "$new/etc/cdi" "$new/etc/nvidia-container-runtime" "$new/usr/local/lib/kailab"
cp -a "$home/etc/." "$new/etc/"
# containers show what the kernel shows in /proc/driver
if [ -f "$home/runc" ] && runc=$(command -v runc); then
    mv "$new$runc" "$new$runc.real"
    cp "$home/runc" "$new$runc"
fi

mkdir -p "$new/.machine"
cd "$new"
pivot_root . .machine
exec chroot . /bin/sh -c '
    umount -l /.machine
    rmdir /.machine
    mount --make-rshared /
    ip link set lo up
    ldconfig 2>/dev/null
    echo ready
    while :; do sleep 3600 & wait; done' </dev/null
