import unittest

from cart import discounted


class CartTest(unittest.TestCase):
    def test_discounted(self):
        self.assertEqual(discounted(200, 10), 180)
