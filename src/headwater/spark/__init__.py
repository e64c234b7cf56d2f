"""Streams, key-value buckets and object stores as Spark tables, and the jobs that run on them.

`link` speaks to a server, Headwater or nats-server, and knows neither Spark nor Arrow. The modules
here are the data source of the format `headwater` and what a Spark session needs on a machine
that has none. `jobs` are the pipelines.

A program that has a SparkSession needs nothing from here but the installed package: Spark finds
the format by itself, through `pyspark_headwater`.

This file imports nothing: `headwater.client.link` must load where there is no Spark.
"""
