"""Checks the numbers of the README and of the results pages against the files in results/.

A page has marks, HTML comments that its readers do not see: `<!-- numbers: mujoco/gem/Hopper-v5 score mean -->` (`marks`).
A mark belongs to the paragraph, list item or table before it (`pages`, `check`). What stands in it is worked out (`queries`,
`comparisons`) from the files of runs (`sources`).
"""
