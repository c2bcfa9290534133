import unittest

from calc import add
from unittests.expected import SUM


class Add(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), SUM)
