import unittest

from cart import is_free


class IsFreeTest(unittest.TestCase):
    def test_at_the_limit(self):
        self.assertTrue(is_free(50, 50))

    def test_at_another_limit(self):
        self.assertTrue(is_free(70.5, 70.5))

    def test_above(self):
        self.assertTrue(is_free(51, 50))

    def test_below(self):
        self.assertFalse(is_free(49, 50))
        self.assertFalse(is_free(49.9, 50))
        self.assertFalse(is_free(1, 2))
