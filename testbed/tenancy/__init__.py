"""A model of many jobs that share many unreliable clients (federated learning).

Pure: no clock, no files, no threads; instants and draws are arguments. After Propius
(arXiv 2510.19617), a control plane that binds clients to the rounds of federated-learning jobs and
a data plane that sums their updates in a tree of parameter servers.
"""
