def test_add():
    assert 1 + 2 == 3
