diff src/n.txt tests/expected.txt
