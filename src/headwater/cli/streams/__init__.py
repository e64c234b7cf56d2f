"""`headwater stream`: streams, their messages and their backups."""
