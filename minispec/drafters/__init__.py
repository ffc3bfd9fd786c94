"""Other ways to make a Proposal, one file each."""
