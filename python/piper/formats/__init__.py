"""Readers of files: one module a format, each with a function that takes a path and returns numbers or a model.

`piper.formats.detect` tells formats apart by content. Every reader refuses what it cannot use with a
`piper.errors.InputError` of one line: the file, the place in it, and what was expected.
"""
