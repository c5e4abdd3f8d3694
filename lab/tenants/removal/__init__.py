"""Removes a tenant, and proves that nothing of it is left."""
