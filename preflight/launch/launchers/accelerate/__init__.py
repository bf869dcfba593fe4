"""accelerate: its command and YAML file, what it takes otherwise than written, and how it starts a job."""
