"""RouteCal's statistics: plain functions of numpy arrays, with neither a plotting nor a web library in sight."""
