"""A decode made visible.

Read `terminal` (colours and tables), `recording` (a decode that is watched), `speed`,
then `page`: one HTML file on which a decode can be stepped through.
"""
