"""Tables of people: files and data frames are read, and become features, groups and rewards."""
