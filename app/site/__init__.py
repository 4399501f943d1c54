"""Site: every page for every run as static files that open without Python, a server or a network."""
