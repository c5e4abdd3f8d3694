"""Linux capabilities of this machine, from the bounding set of the running process."""

from __future__ import annotations

import re

NAMES = tuple(
    """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
    NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
    SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
    SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
    """.split()  # noqa: SIM905 - a table, as in the script
)
"""Names by bit number (linux/capability.h), as in files/kailab-runc."""


def bounding(status: str) -> int | None:
    """The bounding set in the text of ``/proc/self/status``, or None."""
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return int(found[1], 16) if found else None


def missing(mask: int | None, last: int) -> tuple[str, ...]:
    """Names (``CAP_…``) of the capabilities up to bit ``last`` (kernel.cap_last_cap) that ``mask`` lacks."""
    if mask is None:
        return ()
    return tuple(f"CAP_{name}" for bit, name in enumerate(NAMES[: last + 1]) if not mask >> bit & 1)
