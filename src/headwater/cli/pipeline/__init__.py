"""`headwater pipeline`: the jobs on Spark, started, watched and reported from a shell."""
