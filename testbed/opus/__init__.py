"""The control protocol of the authors' own Opus (arXiv 2602.12521) on real lines, both sides.

Both sides have emulated rails; no word moves a switch of a lab. Bytes and order are those recorded
from commit 53f8d514 of github.com/opusfabric/Opus; what is malformed ends a line here, where theirs
goes on or aborts.
"""
