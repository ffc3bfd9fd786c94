"""What `python -m minispec COMMAND` does, one file for each command."""
