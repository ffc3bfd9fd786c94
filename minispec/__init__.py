"""minispec: speculative decoding, written to be read. Start with the README."""

__version__ = "0.1.0"
