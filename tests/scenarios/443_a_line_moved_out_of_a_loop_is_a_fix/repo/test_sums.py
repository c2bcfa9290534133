import unittest

from sums import total


class Sums(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
