"""Removal of a tenant, and proof that nothing of it remains."""
