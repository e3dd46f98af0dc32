"""The tests of extras, a folder for each."""
