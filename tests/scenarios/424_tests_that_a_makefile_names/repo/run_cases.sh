diff src/n.txt cases/n.expected
