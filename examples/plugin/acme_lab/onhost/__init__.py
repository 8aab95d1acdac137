"""The half that runs on hosts, where it is named `acme_onhost`: standard library and NumPy only."""
