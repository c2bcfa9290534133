"""Which files the tools behind a test run read of their own accord."""

from headgate.reading import is_build_file, is_tool_setting


def words(text: str) -> list[str]:
    return text.split()


SETTINGS = words("""
.npmrc web/.npmrc .yarnrc .yarnrc.yml .yarn/releases/yarn-4.1.cjs .yarn/plugins/x.cjs
bunfig.toml .nvmrc .node-version node.config.json .pnp.cjs .pnpmfile.cjs pnpm-workspace.yaml
nx.json turbo.json jest.e2e.config.js vitest-setup.ts cucumber.js .testcaferc.json
rust-toolchain rust-toolchain.toml .cargo/config.toml sub/.cargo/config go.work
CTestCustom.cmake .mvn/extensions.xml .mvn/jvm.config .mvn/maven.config .mvn/settings.xml
x/.mvn/maven.config .config/nextest.toml
testng.xml
src/main/resources/META-INF/services/org.junit.platform.launcher.PostDiscoveryFilter
.jvmopts SpockConfig.groovy global.json nuget.config xunit.runner.json a.testconfig.json
Directory.Build.rsp .config/dotnet-tools.json php.ini phpunit.dist.xml behat.yml
codeception.dist.yml unit.suite.yml .bundle/config .ruby-version .proverc .busted .Rprofile
.hspec .tool-versions mise.toml .mise.toml .config/mise/config.toml .env .env.test .envrc
.bazelrc .python-version pyvenv.cfg behave.ini hatch.toml uv.toml
""")
BUILD = words("""
CMakeLists.txt a/pom.xml build.gradle.kts gradlew vite.config.ts mix.exs tsconfig.json
tsconfig.test.json build.rs setup.py Gemfile app.csproj Package.swift settings.gradle
buildSrc/src/main/kotlin/a.kt project/plugins.sbt gradle/libs.versions.toml
.pre-commit-config.yaml webpack.config.js x.cabal dune BUILD.bazel
""")
OTHERS = words("""
app.py src/main.rs README.md package.json .env.example env.py src/config.json docs/bunfig.md
npmrc cargo/config.toml META-INF/services/com.example.Plugin build.py services/org.junit.x
tsconfig.md CMakeLists.md
""")


def test_settings_build_files_and_others() -> None:
    paths = [*SETTINGS, *BUILD, *OTHERS]
    assert list(filter(is_tool_setting, paths)) == SETTINGS
    assert list(filter(is_build_file, [*BUILD, *OTHERS])) == BUILD
