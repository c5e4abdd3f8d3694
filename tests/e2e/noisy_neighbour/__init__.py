"""A tenant in flames: what burns, who must not notice, and the course of one fire."""
