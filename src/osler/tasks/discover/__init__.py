"""A card for a user's own data: what is in the files decides kind, labels, splits and counts; the user edits the rest."""
