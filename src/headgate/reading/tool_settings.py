"""Which files test runners, build tools, package managers and interpreters read of their own accord.

The names are those that each tool's documentation gives. Settings hold nothing of the product: they choose
runners, versions, plugins, modules that are loaded first, or variables. Build files describe the product too.
"""

import re
from functools import lru_cache

from headgate.first_use import regex


def _names(*patterns: str) -> re.Pattern[str]:
    return regex("|".join(patterns), re.IGNORECASE)


_SETTING = _names(
    # Python
    r"hatch\.toml|\.?pdm\.toml|poetry\.toml|uv\.toml|pyvenv\.cfg|python\d*\._pth|\.python-versions?|\.?behave(\.ini|rc)",
    r"robot\.toml|\.green|green\.cfg|\.s?testr\.conf|tasks\.toml|\.pydistutils\.cfg",
    # JavaScript and TypeScript
    r"\.npmrc|\.yarnrc(\.ya?ml)?|\.?bunfig\.toml|\.nvmrc|\.node-version|node\.config\.json|\.noderc|import_map\.json",
    r"\.pnp\.[cm]?js|\.pnp\.loader\.mjs|\.pnpmfile\.[cm]?js|pnpm-workspace\.yaml",
    r"lerna\.json|nx\.json|turbo\.jsonc?|rush\.json|\.swcrc|\.babelrc(\.\w+)?",
    r"(jest|vitest|karma|ava|cypress|playwright|wdio|nightwatch|jasmine|codecept|protractor|stryker)"
    r"[.-][\w.-]*(config|conf|setup|environment|resolver|transform|preset)[\w-]*\.\w+",
    r"web-test-runner\.config\.\w+|\.testcaferc\.\w+|cucumber\.([cm]?js|json|ya?ml)|\.labrc\.js|intern\.json",
    # Java, Kotlin, Scala, Groovy, Clojure
    r"testng(-\w+)?\.xml|SpockConfig\.groovy|kotest\.properties|allure\.properties|\.sdkmanrc|\.java-version",
    r"\.jvmopts|\.sbtopts|\.mill-(version|opts|jvm-opts)|profiles\.clj|tests\.edn",
    # Rust, Go, C, C++
    r"rust-toolchain(\.toml)?|go\.work|\.go-version|CTest(Custom|Config|Testfile)\.cmake|DartConfiguration\.tcl",
    r"CMakeUserPresets\.json|\.[gl]ldbinit|\.gdbinit",
    # .NET
    r"(.+\.)?xunit\.runner\.json|(.+\.)?testconfig\.json|nuget\.config|global\.json|dotnet-tools\.json",
    r"(msbuild|directory\.build)\.rsp|\w*\.testsettings",
    # PHP
    r"phpunit\.dist\.xml|php\.ini|\.user\.ini|\.php-version|(behat|codeception|phpspec)\.(dist\.)?ya?ml(\.dist)?",
    r"[\w.-]+\.suite(\.dist)?\.ya?ml|infection\.json5?(\.dist)?|kahlan-config\.php",
    # Ruby, Perl, Lua, R, Julia
    r"\.ruby-version|\.simplecov|cucumber\.yml|\.proverc|\.busted|\.Rprofile|\.Renviron|LocalPreferences\.toml",
    # Haskell, Swift, Dart, Elixir, shell
    r"\.hspec|\.ghci|[\w. -]+\.xctestplan|\.swift-version|pubspec_overrides\.yaml",
    r"\.shellspec(-local)?|\.iex\.exs",
    # What many tools share: versions, and variables
    r"\.tool-versions|\.?mise(\.\w+)?\.toml|\.rtx\.toml|devbox\.json|\.env(rc|\.(?!example|sample|template|dist|defaults)[\w.-]+)?|\.bazelrc|\.bazelversion",
    r"\.buckconfig(\.local)?|\.plzconfig(\.\w+)?",
)
_SETTING_PATH = _names(
    r"(.*/)?\.mvn/.*|(.*/)?\.cargo/.*|(.*/)?\.bundle/config|(.*/)?\.yarn/(releases|plugins|sdks)/.*",
    r"(.*/)?\.config/(mise|nextest|dotnet-tools)[/.].*|(.*/)?\.mise/.*|(.*/)?\.moon/.*|(.*/)?gradle/wrapper/.*",
    # Java finds these by itself: listeners, filters and engines of test frameworks.
    r"(.*/)?META-INF/services/(org\.junit|org\.testng|io\.kotest|org\.spockframework|org\.mockito|io\.cucumber).*",
    r"(.*/)?mockito-extensions/.*",
)
_BUILD = _names(
    r"CMakeLists\.txt|CMakePresets\.json|.+\.cmake|meson\.build|meson(_options\.txt|\.options)|configure(\.ac|\.in)?",
    r"Makefile\.(am|in|PL)|Build\.PL|SConstruct|SConscript|wscript|conanfile\.\w+|vcpkg\.json|xmake\.lua",
    r"pom\.xml|build\.xml|ivy\.xml|build\.sbt|build\.(sc|mill)|project\.clj|deps\.edn|bb\.edn|shadow-cljs\.edn",
    r".*\.gradle(\.kts)?|gradle\.properties|libs\.versions\.toml|lombok\.config|gradlew(\.bat)?|mvnw(\.cmd)?",
    r"(gradle|maven)-wrapper\.\w+|mix\.exs|rebar\.config(\.script)?|erlang\.mk|build\.rs|build\.zig(\.zon)?",
    r"Directory\.(Build|Packages|Solution)\.(props|targets)|.+\.(cs|fs|vb)proj|packages\.config",
    r"(vite|babel|webpack|rollup|esbuild|rspack|metro|svelte|astro|next|nuxt|postcss)\.config\.\w+|angular\.json",
    r"(ts|js)config([.-][\w.-]+)?\.json|\.parcelrc|gulpfile(\.\w+)+|gruntfile\.\w+|jakefile(\.\w+)?|project\.json",
    r"setup\.py|Pipfile|pixi\.toml|pants\.toml|buildout\.cfg|dodo\.py|fabfile\.py|pavement\.py",
    r"Gemfile|.+\.gemspec|cpanfile|.+\.cabal|cabal\.project(\.\w+)?|stack\.yaml|Setup\.hs|.+\.nimble|nim\.cfg",
    r"config\.nims|dune(-project|-workspace)?|.+\.opam|Package\.swift|pubspec\.yaml|shard\.yml|.+\.rockspec",
    r"WORKSPACE(\.bazel|\.bzlmod)?|MODULE\.bazel|BUILD\.bazel|.+\.bzl|BUCK|Earthfile|magefile\.go|moon\.yml",
    r"Makefile\.toml|\.?lefthook\.ya?ml|\.pre-commit-config\.ya?ml|(docker-)?compose(\.\w+)?\.ya?ml|Dockerfile",
)
_BUILD_PATH = _names(
    r"(.*/)?(buildSrc|build-logic)/.*", r"(.*/)?project/([^/]+\.(sbt|scala)|build\.properties)"
)


def is_tool_setting(path: str) -> bool:
    """Whether a tool that tests need reads a file by itself, and the file holds nothing of the product."""
    return _matches(_SETTING, _SETTING_PATH, path)


def is_build_file(path: str) -> bool:
    """Whether a file describes how a project is built, which includes how its tests are."""
    return _matches(_BUILD, _BUILD_PATH, path)


@lru_cache(maxsize=16384)
def _matches(names: re.Pattern[str], paths: re.Pattern[str], path: str) -> bool:
    return names.fullmatch(path.rpartition("/")[2]) is not None or (
        "/" in path and paths.fullmatch(path) is not None
    )
