printf 'a\0b' > picture.bin
