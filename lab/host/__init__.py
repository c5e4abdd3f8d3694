"""Facts about this machine, the doctor's checks, and journalled fixes that can be undone."""
