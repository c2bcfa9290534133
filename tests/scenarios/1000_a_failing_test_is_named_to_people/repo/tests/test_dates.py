import unittest

from cal.dates import parse


class Dates(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(parse("2024-01-02"), (2024, 1, 2))

    def test_short(self):
        self.assertEqual(parse("2024-1-2"), (2024, 1, 2))
