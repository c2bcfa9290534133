import unittest

from basket.prices import total


class TotalTest(unittest.TestCase):
    def test_without_discount(self):
        self.assertEqual(total([1.50, 2.25]), 3.75)

    def test_with_discount(self):
        self.assertEqual(total([100.0], discount=10), 90.0)

    def test_discount_is_a_share_of_the_sum(self):
        self.assertEqual(total([40.0, 60.0, 100.0], discount=25), 150.0)


if __name__ == "__main__":
    unittest.main()
