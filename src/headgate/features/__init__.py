"""What Headgate can do besides the loop, a folder for each feature.

Whoever reads a log needs the events and the slices of all features: importing this package makes them known.
So the face of a feature that has events holds little else; what takes part in a run is in its second face,
the module `feature`.
"""

from headgate.features import compaction, mentions, phases, recipes, reviews, scouts
