"""What every page has: title, sidebar, bars, links, errors."""
