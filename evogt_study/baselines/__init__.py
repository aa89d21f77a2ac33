"""What the paper sets beside Evo-GTransNet: classical discretisations and global space-time regression."""
