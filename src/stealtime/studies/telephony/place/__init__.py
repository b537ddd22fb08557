"""Where the server runs: in a namespace of this machine, in a guest, in a protected guest."""
