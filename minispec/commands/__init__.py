"""What `python -m minispec COMMAND` does, one file for each command.

Read `cli`, then `options` and `job` (what to decode), `streaming` and `stop_text` (a
decode while it runs), then any command. `ending` is how every program here ends.
"""
