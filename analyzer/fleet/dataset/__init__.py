"""A batch as one set of Parquet tables: written capture by capture, opened as a DuckDB database."""
