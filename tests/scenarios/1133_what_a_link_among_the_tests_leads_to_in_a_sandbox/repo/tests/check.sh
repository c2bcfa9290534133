cat tests/want.json tests/sets/two.json tests/own.json
test "$(python3 calc.py)" = "$(cat tests/want.json)"
