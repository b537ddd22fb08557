"""From the requests and the traces of trials to figures."""
