"""What the viewer has chosen, and the address that says so."""
