"""What pages compute, kept and shared between viewers; one module for each page."""
