"""The jobs people run on streams and buckets: archive, table, replay, union read, stats.

Each job is a module with its settings (a frozen dataclass of plain values, with `check()`), its
result, and a function of the job's name that takes a SparkSession. Those modules load without
Spark, so that a pipeline file can be checked anywhere: code that needs pyspark, pyarrow or
deltalake is in modules that the functions import when they are called.
"""
