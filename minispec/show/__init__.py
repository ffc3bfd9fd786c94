"""A decode made visible.

Read `terminal` (colours and tables), `recording` (a decode that is watched), `odds`
(what was tried, on which rows), `picture` (two distributions as bars), `speed`, then
`page`: one HTML file on which a decode can be stepped through.
"""
