"""Rails on circuit switches, on paper: stages of traffic, requests for circuits, predicted times.

Pure: no clock, no files, no threads. After Opus (arXiv 2602.12521): the accelerators of one local
index share a switch whose circuits are re-pointed between the stages of an iteration.
"""
