"""The guest of this study: Kamailio and rtpengine out of Debian packages, and what they are told."""
