"""Sources of binaries, images and charts: present → bundle → registry → build."""

from lab.supply.catalogue import Item
from lab.supply.resolve import Choice
from lab.supply.supply import Supply

__all__ = ["Choice", "Item", "Supply"]
