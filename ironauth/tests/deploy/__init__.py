"""The files of deploy/, held against what they speak of and run with the programs they are for."""
