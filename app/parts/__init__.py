"""The lower parts of pages; one module for each page."""
