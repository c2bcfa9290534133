import unittest

from cart import largest, smallest


class CartTest(unittest.TestCase):
    def test_smallest(self):
        self.assertEqual(smallest([1, 2]), 1)

    def test_largest(self):
        self.assertEqual(largest([1, 2]), 2)

    def test_one(self):
        self.assertEqual(largest([1]), smallest([1]))
