"""Streams, key-value buckets and object stores as Spark tables, and the jobs that run on them.

The modules here are the data source of the format `headwater` (`read` and `write`) and the parts
that a Spark session needs on a machine that has none. `jobs` are the pipelines. All of them reach
a server, Headwater or nats-server, by the link in `headwater.client`.

A program that has a SparkSession needs nothing from here but the installed package: Spark finds
the format by itself, through `pyspark_headwater`.

This file imports nothing, because some of the modules load where there is no Spark.
"""
