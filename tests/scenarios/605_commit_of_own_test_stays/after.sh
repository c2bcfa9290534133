printf '\n\ndef test_mine():\n    assert True\n' >> tests/test_a.py
