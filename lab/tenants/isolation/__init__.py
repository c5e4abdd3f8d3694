"""Isolation between the KAI of the host and those of tenants."""
