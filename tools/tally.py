"""Adds up JUnit files: one line per file, each failure with its name and what did not hold, each reason for skipping, what tests told, then the totals.

    python tools/tally.py <folder of .xml files>

The last line is `N passed, M failed, K skipped` and nothing else. Exit code 1 when anything failed or nothing ran.
"""

import collections
import dataclasses
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

MOST_BLAME = 600  # characters


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclasses.dataclass
class Suite:
    counts: Counts = dataclasses.field(default_factory=Counts)
    failures: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # names and reasons
    skips: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    told: list[str] = dataclasses.field(default_factory=list)


def name_of(case: ElementTree.Element) -> str:
    group = case.get("classname", "")
    name = case.get("name", "?")
    return name if group in ("", name) else f"{group}.{name}"


def reason_of(case: ElementTree.Element, skipped: ElementTree.Element) -> str:
    """pytest gives the reason as an attribute; a C++ test prints it, below the line of GTEST_SKIP's place."""
    out = case.findtext("system-out") or ""
    printed = re.search(r"Skipped\n(.+)|\[  SKIPPED \] (.+)", out)
    if printed:
        return (printed[1] or printed[2]).strip()
    return skipped.get("message") or "no reason given"


def blame_of(case: ElementTree.Element) -> str:
    """What did not hold: pytest's lines that begin with > and E, or what a C++ test printed at its first failure."""
    text = "\n".join((found.text or found.get("message") or "") for found in case if found.tag in ("failure", "error"))
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith(("> ", "E "))]
    if not lines:
        printed = (case.findtext("system-out") or "") + text
        begin = printed.rfind("\n", 0, max(printed.find(": Failure"), 0)) + 1
        lines = [line.strip() for line in printed[begin:].splitlines()]
    return " | ".join(line for line in lines if line)[:MOST_BLAME]


def read(path: pathlib.Path) -> Suite:
    suite = Suite()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        suite.told += [str(told.get("value")) for told in case.iterfind("properties/property[@name='told']")]
        if case.find("failure") is not None or case.find("error") is not None:
            suite.counts.failed += 1
            suite.failures.append((name_of(case), blame_of(case)))
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            suite.counts.skipped += 1
            suite.skips[reason_of(case, skipped if skipped is not None else case)] += 1
        else:
            suite.counts.passed += 1
    return suite


def main(folder: str) -> int:
    total = Counts()
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        suite = read(path)
        print(f"{path.stem}: {suite.counts}")
        for name, blame in suite.failures:
            print(f"  failed: {name}\n    {blame}")
        for reason, times in sorted(suite.skips.items()):
            print(f"  skipped {times}: {reason}")
        for line in suite.told:
            print(f"  {line}")
        total += suite.counts
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
