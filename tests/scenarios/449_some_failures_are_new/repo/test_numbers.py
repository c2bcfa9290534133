import unittest

from numbers_ import one, three, two


class Numbers(unittest.TestCase):
    def test_one(self):
        self.assertEqual(one(), 1)

    def test_two(self):
        self.assertEqual(two(), 2)

    def test_three(self):
        self.assertEqual(three(), 3)
