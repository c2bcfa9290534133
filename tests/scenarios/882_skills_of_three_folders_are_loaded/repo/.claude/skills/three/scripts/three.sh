echo three
