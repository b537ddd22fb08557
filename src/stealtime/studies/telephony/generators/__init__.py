"""The SIPps that offer a load, and whether they, the network or the server are its limit."""
