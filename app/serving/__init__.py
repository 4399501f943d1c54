"""What a server needs beyond pages: who may come in, and what is written down."""
