"""A campaign on many hosts, by the Dask scheduler and workers that a site runs."""
