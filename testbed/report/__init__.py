"""Output for people and CI: the live view, the last page of a run, HTML, JUnit, plans, comparisons.

Every screen is a function of the event log or of the summary made from it; nothing here measures,
decides or keeps a number of its own. The only package that imports rich, jinja2 and matplotlib.
"""
