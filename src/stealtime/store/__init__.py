"""A run on disk: a manifest, and a folder with Parquet files for each cell (``docs/run-format.md``)."""
