"""The other forms of a report, one module a form."""
