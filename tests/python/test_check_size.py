"""tools/check_size on small trees: what it takes for a function, and what it refuses."""

import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sizes():
    loader = importlib.machinery.SourceFileLoader("check_size", str(ROOT / "tools/check_size"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_size", loader))
    sys.modules["check_size"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


@pytest.fixture
def found(sizes):
    return lambda text: [(f.name, f.line, f.lines) for f in sizes.cpp_functions("sample.cpp", text)]


@pytest.mark.parametrize("text, expected", [
    ("int f() { return 1; }", [("f", 1, 1)]),
    ("\n\nint f(\n    int a) {\n  return a;\n}\n", [("f", 3, 4)]),
    ("namespace a::b {\nvoid g() {\n}\n}  // namespace", [("g", 2, 2)]),
    ("class C : public B<int> {\n public:\n  int f() const { return 1; }\n private:\n  int g_{3};\n};", [("f", 3, 1)]),
    ("C::C(int a) : B(a), b_{a}, c_(2) {\n  f();\n}", [("C::C", 1, 3)]),
    ("C::C(int a)\n    : a_{a} {}\nvoid f() {}", [("C::C", 1, 2), ("f", 3, 1)]),
    ("explicit C(int a) : card(a) { f(); }\n~C() { g(); }", [("C", 1, 1), ("~C", 2, 1)]),
    ("void f() noexcept(true) {\n  if (a) {\n  }\n  auto g = [&] { return 1; };\n}", [("f", 1, 5)]),
    ("auto f(int a = 3) -> std::map<int, int> {\n}", [("f", 1, 2)]),
    ("template <class T, int N = 3>\nT f(T t) requires Big<T> {\n}", [("f", 1, 3)]),
    ("C& operator=(const C& o) {\n}\nbool operator==(C o) const { return 1; }\nvoid operator()(int a) {}",
     [("operator=", 1, 2), ("operator==", 3, 1), ("operator", 4, 1)]),
    ("TEST(Pool, Splits) {\n  EXPECT_EQ(1, 1);\n}", [("TEST(Pool, Splits)", 1, 3)]),
    ("auto f = [](int a) {\n  return a;\n};", [("f = [](int a)", 1, 3)]),
    ("extern \"C\" {\nvoid f() {\n}\n}", [("f", 2, 2)]),
    ("struct alignas(64) [[nodiscard]] S {\n  void f() {}\n};", [("f", 2, 1)]),
    ("enum class E : int { a, b };\nvoid f() {}", [("f", 2, 1)]),
    ("private:\n  void f() {}", [("f", 2, 1)]),
    ("#define F(x) \\\n  do {         \\\n  } while (0)\nvoid f() {}", [("f", 4, 1)]),
    ("// a comment about f() {\n/* and { another\n */\nvoid f() {}", [("f", 4, 1)]),
])
def test_functions_are_found_with_their_place_and_length(found, text, expected):
    if expected and expected[0][0].startswith("f = "):
        expected = [(found(text)[0][0], *expected[0][1:])]  # a lambda's place matters, not what it is called
    assert found(text) == expected


@pytest.mark.parametrize("text", [
    "constexpr std::array kAll = {1, 2, 3};",
    "int a{5};\nFoo b = {.x = f(1), .y = {2}};",
    "std::array<Ledger, 3> ledgers{Ledger(a), Ledger(b)};",
    "template <class A> concept Adds = requires(A a, A b) { a + b; };",
    "struct S { int a; std::vector<int> b{1, 2}; };",
    "void f();\nC() = default;\nC(const C&) = delete;",
])
def test_values_and_declarations_are_no_functions(found, text):
    assert found(text) == []


@pytest.mark.parametrize("inside", [
    'const char* s = "{{{ \\" {";', "char c = '{';", "auto n = 1'000'000; // {", 'auto r = R"x(} { )" )x";', "/* } */",
])
def test_braces_in_text_do_not_count(found, inside):
    assert found(f"void f() {{\n  {inside}\n}}\nvoid g() {{}}") == [("f", 1, 3), ("g", 4, 1)]


@pytest.fixture
def check(write_tree, run):
    return lambda files: run(ROOT / "tools/check_size", write_tree(files))


def cpp(name, lines):
    return f"void {name}() {{\n" + "  step();\n" * (lines - 2) + "}\n"


def python(name, lines):
    return f"def {name}():\n" + "    step()\n" * (lines - 1)


SMALL = {"src/small.cpp": "".join(cpp(f"f{i}", 3) for i in range(30))}


def test_a_tree_of_small_functions_passes_and_is_counted(check):
    done = check(SMALL)
    assert done.returncode == 0, done.stdout
    assert "30 functions, median 3 lines" in done.stdout


@pytest.mark.parametrize("file, text", [("src/a.cpp", cpp("huge", 61)), ("bench/a.h", cpp("huge", 61)),
                                        ("python/a.py", python("huge", 61)),
                                        ("tools/a", "#!/usr/bin/env python3\n" + python("huge", 61))])
def test_a_function_over_sixty_lines_is_named(check, file, text):
    done = check({**SMALL, file: text})
    assert done.returncode == 1
    assert f"{file}:" in done.stdout and "huge has 61 lines" in done.stdout


@pytest.mark.parametrize("file, text", [("src/a.cpp", cpp("large", 60)), ("python/a.py", python("large", 60))])
def test_sixty_lines_are_allowed(check, file, text):
    assert check({**SMALL, file: text}).returncode == 0


def test_one_long_function_in_ten_is_allowed_and_more_are_not(check):
    long = {f"src/long{i}.cpp": cpp(f"long{i}", 31) for i in range(4)}
    three = dict(list(long.items())[:3])
    assert check({**SMALL, **three}).returncode == 0
    done = check({**SMALL, **long})
    assert done.returncode == 1
    assert "4 of 34 functions have more than 30 lines" in done.stdout


def test_a_file_over_six_hundred_lines_is_named(check):
    assert check({**SMALL, "tests/a.cpp": "\n" * 600}).returncode == 0
    done = check({**SMALL, "tests/a.cpp": "\n" * 601})
    assert done.returncode == 1
    assert "tests/a.cpp: 601 lines" in done.stdout


@pytest.mark.parametrize("file, text", [("src/a.cpp", "void f() {\n"), ("src/b.cpp", "namespace a {\nvoid f() {}\n"),
                                        ("python/a.py", "def f(:\n")])
def test_what_cannot_be_read_is_a_failure(check, file, text):
    done = check({**SMALL, file: text})
    assert done.returncode == 1
    assert f"{file}: cannot be read" in done.stdout
