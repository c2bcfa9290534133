printf 'one\r\ntwo\r\nthree\r\n' | tee edited.txt written.txt > patched.txt
