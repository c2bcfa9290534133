"""Failing tests of runners other than Python's, and what holds for all of them."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.reading import MAX_FAILURES, FailedTest, find_failures, render_failures

JEST = """\
FAIL src/sum.test.js (5.1 s)
  ● Console

    console.log
      ● not › a test

  ● sum › adds numbers

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: -1

    > 2 | test('adds numbers', () => { expect(sum(1,2)).toBe(3); });
        |                                             ^

      at Object.toBe (node_modules/expect/build/index.js:9:9)
      at Object.<anonymous> (src/sum.test.js:2:71)

  ● top level

    TypeError: boom

      at load (src/load.js:8:61)
      at Object.<anonymous> (src/sum.test.js:3:61)

PASS src/fine.test.js
  ● Console

    console.error
      FAIL me
FAIL src/broken.test.ts
  ● Test suite failed to run

    Cannot find module './missing' from 'src/broken.test.ts'

      at Resolver._throwModNotFoundError (node_modules/jest-resolve/build/index.js:1031:11)
      at Object.require (src/broken.test.ts:1:1)

Test Suites: 2 failed, 1 passed, 3 total
"""
JEST_FAILURES = [
    FailedTest(
        "src/sum.test.js › sum › adds numbers",
        "src/sum.test.js:2",
        "expect(received).toBe(expected); Expected: 3; Received: -1",
    ),
    FailedTest("src/sum.test.js › top level", "src/load.js:8", "TypeError: boom"),
    FailedTest(
        "src/broken.test.ts",
        "src/broken.test.ts:1",
        "Cannot find module './missing' from 'src/broken.test.ts'",
    ),
]

VITEST = """\
 \x1b[31m❯\x1b[39m v/a.test.js \x1b[2m(\x1b[22m4 tests | 3 failed)
\x1b[31m     ×\x1b[39m adds 11ms

⎯⎯⎯⎯⎯⎯ Failed Suites 1 ⎯⎯⎯⎯⎯⎯⎯

\x1b[41m\x1b[1m FAIL \x1b[22m\x1b[49m v/m.test.js\x1b[2m [ v/m.test.js ]\x1b[22m
Error: Cannot find module './missing.js' imported from /repo/v/m.test.js
 ❯ v/m.test.js:1:1
      1| import './missing.js'

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/3]⎯

 FAIL  v/a.test.js > sum > adds
 FAIL  v/a.test.js > sum > adds again
AssertionError: expected -1 to be 3 // Object.is equality

- Expected
+ Received

 ❯ add v/sum.js:7:3
 ❯ v/a.test.js:2:56

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[3/3]⎯

 Test Files  2 failed (2)
"""
VITEST_FAILURES = [
    FailedTest(
        "v/m.test.js",
        "v/m.test.js:1",
        "Error: Cannot find module './missing.js' imported from /repo/v/m.test.js",
    ),
    FailedTest("v/a.test.js > sum > adds", "v/sum.js:7", "AssertionError: expected -1 to be 3"),
    FailedTest("v/a.test.js > sum > adds again", "v/sum.js:7", "AssertionError: expected -1 to be 3"),
]

MOCHA = """\
  Array
    1) throws
    ✔ fine

  1 passing (13ms)
  2 failing

  1) Array
       #indexOf()
         returns -1:

      AssertionError [ERR_ASSERTION]: 0 == -1
      + expected - actual

      at Context.<anonymous> (m/t.js:2:90)
      at process.processImmediate (node:internal/timers:483:21)

  2) alone:
     Error: boom
      at Context.<anonymous> (m/t.js:3:29)
"""
MOCHA_FAILURES = [
    FailedTest("Array › #indexOf() › returns -1", "m/t.js:2", "AssertionError [ERR_ASSERTION]: 0 == -1"),
    FailedTest("alone", "m/t.js:3", "Error: boom"),
]

TAP = """\
TAP version 13
# Subtest: outer
    not ok 1 - inner
      ---
      duration_ms: 3.0
      location: '/repo/n.test.mjs:2:38'
      failureType: 'testCodeFailure'
      error: |-
        Expected values to be strictly equal:

        1 !== 2

      code: 'ERR_ASSERTION'
      ...
    1..1
not ok 1 - outer
  ---
  location: '/repo/n.test.mjs:2:1'
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  ...
not ok 2 - later # TODO
ok 3 - ok
"""
TAP_FAILURES = [FailedTest("inner", "n.test.mjs:2", "Expected values to be strictly equal: 1 !== 2")]

NODE_SPEC = """\
▶ outer
  ✖ inner (3.0ms)
✖ failing tests:

test at n.test.mjs:2:38
✖ inner (3.016139ms)
  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:
"""
NODE_SPEC_FAILURES = [
    FailedTest(
        "inner", "n.test.mjs:2", "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:"
    )
]

GO = """\
=== RUN   TestAdd
    math_test.go:9: Add(1, 2) = -1; want 3
--- FAIL: TestAdd (0.00s)
=== RUN   TestFine
    math_test.go:30: just saying
--- PASS: TestFine (0.00s)
--- FAIL: TestTable (0.00s)
    --- FAIL: TestTable/negative (0.00s)
        math_test.go:20: got 1
--- FAIL: TestEqual (0.00s)
    a_test.go:12:\x20
        \tError Trace:\t/repo/a_test.go:12
        \tError:      \tNot equal:\x20
        \t            \texpected: 1
--- FAIL: TestPanics (0.00s)
panic: runtime error: index out of range [3] with length 1 [recovered]

goroutine 6 [running]:
testing.tRunner.func1.2({0x1, 0x2})
\t/usr/local/go/src/testing/testing.go:1632 +0x230
example.com/demo.At(...)
\t/repo/math.go:8 +0x1d
FAIL\texample.com/demo\t0.004s
# example.com/demo/sub [example.com/demo/sub.test]
./sub/sub.go:5:9: undefined: foo
FAIL\texample.com/demo/sub [build failed]
ok  \texample.com/demo/fine\t0.001s
?   \texample.com/demo/none\t[no test files]
panic: in init

goroutine 1 [running]:
example.com/demo/start.init.0()
\t/repo/start/start.go:4 +0x25
FAIL\texample.com/demo/start\t0.003s
FAIL\texample.com/demo/other [setup failed]
FAIL
"""
GO_FAILURES = [
    FailedTest("example.com/demo.TestAdd", "math_test.go:9", "Add(1, 2) = -1; want 3"),
    FailedTest("example.com/demo.TestTable/negative", "math_test.go:20", "got 1"),
    FailedTest("example.com/demo.TestEqual", "a_test.go:12", "Not equal:"),
    FailedTest(
        "example.com/demo.TestPanics",
        "math.go:8",
        "panic: runtime error: index out of range [3] with length 1 [recovered]",
    ),
    FailedTest("build example.com/demo/sub", "sub/sub.go:5", "undefined: foo"),
    FailedTest("example.com/demo/start", "start/start.go:4", "panic: in init"),
    FailedTest("example.com/demo/other", "", "setup failed"),
]

CARGO = """\
running 5 tests
test tests::adds ... FAILED
test tests::fine ... ok
test tests::old ... FAILED
test tests::panics - should panic ... FAILED
test tests::result ... FAILED

failures:

---- tests::adds stdout ----

thread 'tests::adds' (20708) panicked at src/lib.rs:9:25:
assertion `left == right` failed: sum is wrong
  left: -1
 right: 3
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5

---- tests::old stdout ----
thread 'tests::old' panicked at 'index out of bounds', src/lib.rs:12:5
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

---- tests::panics stdout ----
note: test did not panic as expected at src/lib.rs:12:51
---- tests::result stdout ----
Error: "bad thing"


failures:
    tests::adds
    tests::old
    tests::panics
    tests::result

test result: FAILED. 1 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.14s

error: test failed, to rerun pass `--lib`
---- src/lib.rs - doc (line 2) stdout ----
thread 'main' (20737) panicked at /tmp/rustdoctest/doctest_bundle_2024.rs:6:1:
assertion failed
"""
CARGO_FAILURES = [
    FailedTest(
        "tests::adds", "src/lib.rs:9", "assertion `left == right` failed: sum is wrong; left: -1; right: 3"
    ),
    FailedTest("tests::old", "src/lib.rs:12", "index out of bounds"),
    FailedTest("tests::panics", "", "test did not panic as expected at src/lib.rs:12:51"),
    FailedTest("tests::result", "", 'Error: "bad thing"'),
    FailedTest("src/lib.rs - doc (line 2)", "src/lib.rs:2", "assertion failed"),
]

RUSTC = """\
   Compiling demo v0.1.0 (/repo)
warning: unused variable: `x`
 --> src/lib.rs:7:5
error[E0308]: mismatched types
 --> src/lib.rs:1:37
  |
1 | pub fn add(a: i32, b: i32) -> i32 { "x" }
  |                               ---   ^^^ expected `i32`, found `&str`

error: could not compile `demo` (lib) due to 1 previous error
"""
RUSTC_FAILURES = [FailedTest("build", "src/lib.rs:1", "error[E0308]: mismatched types")]

MAVEN = """\
[ERROR] Tests run: 3, Failures: 1, Errors: 1, Skipped: 0, Time elapsed: 0.05 s <<< FAILURE! -- in SumTest
[INFO] Results:
[INFO]\x20
[ERROR] Failures:\x20
[ERROR]   SumTest.adds:12 expected: <3> but was: <-1>
[ERROR]   DeepTest.deep:17->BaseTest.check:9 no
[ERROR] Errors:\x20
[ERROR]   SumTest.throwsIt:20 » IllegalState boom
[INFO]\x20
[ERROR] Tests run: 3, Failures: 2, Errors: 1, Skipped: 0
"""
MAVEN_FAILURES = [
    FailedTest("SumTest.adds", "SumTest.java:12", "expected: <3> but was: <-1>"),
    FailedTest("DeepTest.deep", "DeepTest.java:17", "no"),
    FailedTest("SumTest.throwsIt", "SumTest.java:20", "IllegalState boom"),
]

JAVAC = """\
[ERROR] COMPILATION ERROR :\x20
[ERROR] /repo/src/main/java/App.java:[10,9] cannot find symbol
[ERROR]   symbol:   class Foo
[INFO] 1 error
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.11.0:compile
[ERROR] /repo/src/main/java/App.java:[10,9] cannot find symbol
/repo/src/main/java/Other.java:3: error: ';' expected
"""
JAVAC_FAILURES = [
    FailedTest("build", "src/main/java/App.java:10", "cannot find symbol"),
    FailedTest("build", "src/main/java/Other.java:3", "';' expected"),
]

GRADLE = """\
> Task :test FAILED

demo.MyTests$NestedTests > secondTest FAILED
    java.lang.AssertionError at MyTests.java:18

CalcTest > adds(int) > [1] 3 FAILED
    org.opentest4j.AssertionFailedError: expected: <1> but was: <2>

2 tests completed, 2 failed
"""
GRADLE_FAILURES = [
    FailedTest("demo.MyTests$NestedTests > secondTest", "MyTests.java:18", "java.lang.AssertionError"),
    FailedTest(
        "CalcTest > adds(int) > [1] 3", "", "org.opentest4j.AssertionFailedError: expected: <1> but was: <2>"
    ),
]

SAMPLES = {
    "jest": (JEST, JEST_FAILURES),
    "vitest": (VITEST, VITEST_FAILURES),
    "mocha": (MOCHA, MOCHA_FAILURES),
    "tap": (TAP, TAP_FAILURES),
    "node": (NODE_SPEC, NODE_SPEC_FAILURES),
    "go": (GO, GO_FAILURES),
    "cargo": (CARGO, CARGO_FAILURES),
    "rustc": (RUSTC, RUSTC_FAILURES),
    "maven": (MAVEN, MAVEN_FAILURES),
    "javac": (JAVAC, JAVAC_FAILURES),
    "gradle": (GRADLE, GRADLE_FAILURES),
}
PYTEST = """\
=========================== short test summary info ============================
FAILED tests/test_a.py::test_one - assert 1 == 2
1 failed in 0.01s
"""


@pytest.mark.parametrize("runner", SAMPLES)
def test_each_format(runner: str) -> None:
    output, expected = SAMPLES[runner]
    assert list(find_failures(output, "/repo")) == expected


@pytest.mark.parametrize("runner", SAMPLES)
def test_colours_and_line_ends_do_not_matter(runner: str) -> None:
    output, expected = SAMPLES[runner]
    coloured = "".join(f"\x1b[31;1m{line}\x1b[0m\r\n" for line in output.split("\n"))
    assert list(find_failures(coloured, "/repo")) == expected


def test_a_run_that_jest_sums_up_again_is_counted_once() -> None:
    assert list(find_failures(f"{JEST}\nSummary of all failing tests\n{JEST}", "/repo")) == JEST_FAILURES


@pytest.mark.parametrize("names", [*permutations(["jest", "go", "maven"])])
def test_an_output_of_several_runners(names: tuple[str, ...]) -> None:
    """The order is that of the table of parsers, whatever came first."""
    found = find_failures(PYTEST + "".join(SAMPLES[name][0] for name in names), "/repo")
    one = FailedTest("tests/test_a.py::test_one", "", "assert 1 == 2")
    assert list(found) == [one, *JEST_FAILURES, *GO_FAILURES, *MAVEN_FAILURES]


@pytest.mark.parametrize(
    "output",
    [
        "",
        "PASS src/sum.test.js\n  ✓ adds (2 ms)\n\nTests:       1 passed, 1 total\n",
        " ✓ v/a.test.js (4 tests) 18ms\n\n Test Files  1 passed (1)\n",
        "  Array\n    ✔ fine\n\n  1 passing (3ms)\n",
        "TAP version 13\nok 1 - fine\n1..1\n",
        "=== RUN   TestX\n    a_test.go:3: said\n--- PASS: TestX (0.00s)\nPASS\nok  \texample.com/a\t0.1s\n",
        "--- FAIL: TestInner (0.00s)\nok  \texample.com/about/go/test\t0.1s\n",
        "running 1 test\ntest a::b ... ok\n\ntest result: ok. 1 passed; 0 failed\n",
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n",
        "> Task :test\n\nBUILD SUCCESSFUL in 1s\n",
        "FAILED to reach the cache\nERROR cache.py - gone\nFAIL\nerror: nothing\n12 passed in 0.3s\n",
        "=" * 70 + "\nRESULT: all good\n" + "=" * 70 + "\n",
    ],
)
def test_what_passes_has_no_failures(output: str) -> None:
    assert find_failures(output) == ()


def test_they_are_few_and_short() -> None:
    lines = [f"FAILED t.py::test_{number} - {'x' * 5000}" for number in range(100)]
    found = find_failures("= short test summary info =\n" + "\n".join(lines))
    assert [failure.name for failure in found] == [f"t.py::test_{number}" for number in range(MAX_FAILURES)]
    assert {len(failure.message) for failure in found} == {200}
    assert render_failures(found).splitlines()[-1] == "- (at most 20 are listed)"


def test_of_a_huge_output_the_beginning_and_the_end_are_read() -> None:
    noise = "lorem ipsum dolor sit amet\n" * 100_000
    found = find_failures(f"test first ... FAILED\n{noise}test middle ... FAILED\n{noise}{PYTEST}")
    assert [failure.name for failure in found] == ["tests/test_a.py::test_one", "first"]


def test_rendering_leaves_out_what_is_not_known() -> None:
    found = [
        FailedTest("a", "b.py:3", "no"),
        FailedTest("c", "", "no"),
        FailedTest("d", "e.go:4"),
        FailedTest("f"),
    ]
    assert render_failures(found) == "- a (b.py:3): no\n- c: no\n- d (e.go:4)\n- f"
    assert render_failures([]) == ""


PIECES = st.sampled_from([line for output, _ in SAMPLES.values() for line in output.splitlines()])


@given(st.lists(st.one_of(PIECES, st.text(max_size=80), st.just("=" * 70)), max_size=60), st.text(max_size=5))
def test_no_output_makes_it_fail(lines: list[str], directory: str) -> None:
    output = "\n".join(lines)
    found = find_failures(output, directory)
    assert found == find_failures(output, directory)
    assert len(found) <= MAX_FAILURES
    assert len({(failure.name, failure.location) for failure in found}) == len(found)
    for failure in found:
        assert failure.name
        assert all("\n" not in text and len(text) <= 200 for text in (failure.name, failure.message))


@given(st.data())
def test_a_cut_output_makes_it_fail_neither(data: st.DataObject) -> None:
    output = data.draw(st.sampled_from([sample for sample, _ in SAMPLES.values()]))
    start = data.draw(st.integers(0, len(output)))
    end = data.draw(st.integers(start, len(output)))
    assert len(find_failures(output[start:end])) <= MAX_FAILURES
