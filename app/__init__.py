"""The dashboard: state, loaders, components and plots that the scripts in `pages/` are made of."""
