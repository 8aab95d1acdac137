"""Reports for users and CI: live view, last page of a run, HTML, JUnit, plans, comparisons.

Every screen is a function of the event log or of the summary made from it; nothing here measures or
decides. The only package that imports rich, jinja2 and matplotlib.
"""
