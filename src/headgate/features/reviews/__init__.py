"""Reviews: checks that look at a task's own diff. What they find goes back to the model once.

What runs tasks finds the rest in `feature`.
"""

from headgate.features.reviews.events import DiffFindings
