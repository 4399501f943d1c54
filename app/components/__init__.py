"""Pieces of pages: the sidebar, what is shown, and the head of every page."""
