"""The package by which Spark finds the format `headwater` without being told.

Spark imports every importable package named `pyspark_*` and takes its `DefaultSource`. It does so
in the driver and for every format it is asked for, so this package holds the one name and nothing
else.
"""

from headwater.spark.datasource import HeadwaterDataSource as DefaultSource

__all__ = ["DefaultSource"]
