"""Exercises whose tests run with the real tools of a language, where these are installed."""

import shutil
from pathlib import Path

import pytest
from bench_command import Place
from bench_server import DONE, Asked, Calls, model_server
from exercise_set import Files, write_exercise

LEAP = "year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)"
RUST = Files(
    "src/lib.rs",
    "pub fn leap(_year: u32) -> bool {\n    false\n}\n",
    f"pub fn leap(year: u32) -> bool {{\n    {LEAP}\n}}\n",
    "tests/leap.rs",
    "#[test]\nfn common() { assert!(!leap::leap(2015)); }\n\n"
    "#[test]\n#[ignore]\nfn century() { assert!(leap::leap(2000)); }\n",
)
CPP = Files(
    "leap.cpp",
    '#include "leap.h"\nbool leap(int) { return false; }\n',
    f'#include "leap.h"\nbool leap(int year) {{ return {LEAP}; }}\n',
    "leap_test.cpp",
    '#include "leap.h"\nint main() {\n'
    "#if defined(EXERCISM_RUN_ALL_TESTS)\n  if (!leap(2000)) return 1;\n#endif\n"
    "  return leap(2015);\n}\n",
)
JAVASCRIPT = Files(
    "leap.js",
    "module.exports = () => false;\n",
    "module.exports = (y) => y % 4 === 0 && (y % 100 !== 0 || y % 400 === 0);\n",
    "leap.spec.js",
    "const leap = require('./leap');\nconst { test, xtest } = require('tiny-test');\n"
    "test('2015', () => !leap(2015));\nxtest('2000', () => leap(2000));\n",
)
GO = Files(
    "leap.go",
    "package leap\n\nfunc IsLeapYear(year int) bool {\n\treturn false\n}\n",
    f"package leap\n\nfunc IsLeapYear(year int) bool {{\n\treturn {LEAP}\n}}\n",
    "leap_test.go",
    'package leap\n\nimport "testing"\n\nfunc TestLeapYears(t *testing.T) {\n'
    "\tfor year, wanted := range map[int]bool{2015: false, 1900: false, 2000: true} {\n"
    '\t\tif IsLeapYear(year) != wanted {\n\t\t\tt.Errorf("IsLeapYear(%d)", year)\n\t\t}\n\t}\n}\n',
)
JAVA = Files(
    "src/main/java/Leap.java",
    "class Leap {\n    boolean isLeapYear(int year) { return false; }\n}\n",
    f"class Leap {{\n    boolean isLeapYear(int year) {{ return {LEAP}; }}\n}}\n",
    "src/test/java/LeapTest.java",
    "public class LeapTest {\n    public static void main(String[] arguments) {\n"
    "        if (new Leap().isLeapYear(2015)) System.exit(1);\n"
    '        if (Boolean.parseBoolean("true" /* @Disabled("Remove to run test") */) '
    "&& !new Leap().isLeapYear(2000)) System.exit(1);\n    }\n}\n",
)
MORE = {
    "go": {"go.mod": "module leap\n\ngo 1.18\n"},
    "java": {
        # What Gradle's wrapper does for an exercise, without the download.
        "gradlew": "#!/bin/sh\nmkdir -p build && javac -d build src/main/java/*.java src/test/java/*.java"
        " && java -cp build LeapTest\n",
    },
    "rust": {"Cargo.toml": '[package]\nname = "leap"\nversion = "1.0.0"\nedition = "2021"\n'},
    "cpp": {
        "leap.h": "bool leap(int year);\n",
        # The name of the folder decides, as in the exercises of Exercism.
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.5)\n"
        "get_filename_component(exercise ${CMAKE_CURRENT_SOURCE_DIR} NAME)\n"
        "project(${exercise} CXX)\n"
        "add_executable(${exercise} ${exercise}_test.cpp ${exercise}.cpp)\n"
        "if(EXERCISM_RUN_ALL_TESTS)\n"
        "  target_compile_definitions(${exercise} PRIVATE EXERCISM_RUN_ALL_TESTS)\nendif()\n"
        "add_custom_target(test_${exercise} ALL DEPENDS ${exercise} COMMAND ${exercise})\n",
    },
    "javascript": {
        "package.json": '{"name": "leap", "scripts": {"test": "node leap.spec.js"}}\n',
        "../node_modules/tiny-test/index.js": "exports.test = (name, holds) => {\n"
        "  if (!holds()) { console.error(`${name} failed`); process.exitCode = 1; }\n};\n"
        "exports.xtest = () => {};\n",
    },
}
TOOLS = {
    "go": (GO, "go"),
    "java": (JAVA, "javac"),
    "rust": (RUST, "cargo"),
    "cpp": (CPP, "cmake"),
    "javascript": (JAVASCRIPT, "npm"),
}


@pytest.mark.parametrize("language", TOOLS)
def test_a_real_toolchain(place: Place, language: str) -> None:
    files, program = TOOLS[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    folder = place.exercises / language / "leap"
    write_exercise(folder, files)
    for path, text in MORE[language].items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755)

    def answer(asked: Asked) -> Calls:
        right = (
            [("write_file", {"path": files.solution, "content": files.answer})] if asked.has_failed else []
        )
        return [*right, DONE]

    with model_server(answer) as model:
        done = place.bench(model.url, "--keep", RUSTUP_HOME=str(Path.home() / ".rustup"))
    lines = [line.split("\t")[0].split(":")[0] for line in done.stdout.splitlines()]
    assert lines == ["Failed Try1", "Finished Try2"], done.stdout + done.stderr + model.asked[-1].text
