"""Peers, a module each. A peer says what it needs, and loads files into a table."""
