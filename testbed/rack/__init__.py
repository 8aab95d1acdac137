"""Models of torus racks: slices of accelerators, the circuits that join them, and failures.

Pure: no clock, no files, no threads. After Morphlux (arXiv 2508.03674). All numbers that come from
here are labelled `model`.
"""
