"""Byte amounts as people write them, and the RAM a cgroup leaves."""

import pytest

from spillway.amounts import cgroup_limit, parse_bytes, ram_bytes, to_text

GIB = 2**30


@pytest.mark.parametrize("text, expected", [
    (4096, 4096), ("4096", 4096), ("8GiB", 8 * GIB), ("8G", 8 * GIB), ("8g", 8 * GIB), ("8GB", 8 * 10**9), ("8gb", 8 * 10**9),
    ("1.5GiB", 3 * GIB // 2), (".5k", 512), ("64 KiB", 65536), ("512MiB", 512 * 2**20), ("2T", 2 * 2**40), ("100B", 100),
    ("  7 MB ", 7 * 10**6), ("9007199254740993", 9007199254740993),
])  # fmt: skip
def test_an_amount_is_bytes_or_a_number_with_a_unit(text, expected):
    assert parse_bytes(text) == expected


def test_a_percentage_is_a_share_of_the_whole():
    assert parse_bytes("60%", whole=1000) == 600
    assert parse_bytes("12.5 %", whole=1000) == 125


@pytest.mark.parametrize("text", ["8gigs", "", "GiB", "-1", "1e9", "8 Gi", "0x10", "eight", "5%%", "1,5GiB", True, 2.5, None])
def test_an_unreadable_amount_is_named_with_what_is_accepted(text):
    with pytest.raises(ValueError) as refusal:
        parse_bytes(text, whole=1000, of="the moon")
    message = str(refusal.value)
    assert str(text) in message and "KiB/MiB/GiB" in message and "60% (of the moon)" in message


def test_the_sentence_for_8gigs():
    with pytest.raises(ValueError, match=r"^cannot read budget '8gigs': write bytes, or a number with KiB/MiB/GiB"):
        parse_bytes("8gigs")


@pytest.mark.parametrize("text", ["0", "0GiB", "0.1", "0%", "101%", "99999999TiB"])
def test_nothing_and_more_than_everything_are_refused(text):
    with pytest.raises(ValueError, match="less than one byte|between 0 and 100|more than any machine"):
        parse_bytes(text, whole=1000)


def test_a_percentage_of_nothing_in_particular_is_refused():
    with pytest.raises(ValueError, match="a percentage has no meaning here") as refusal:
        parse_bytes("60%")
    assert "such as 60%" not in str(refusal.value)


@pytest.mark.parametrize("amount, text", [
    (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB"), (10 * 2**20, "10.0 MiB"), (100 * 2**20, "100 MiB"),
    (2**30 - 1, "1.00 GiB"), (int(7.92 * GIB), "7.92 GiB"), (5 * 2**40, "5.00 TiB"), (-2048, "-2.00 KiB"),
])  # fmt: skip
def test_bytes_are_written_with_three_digits(amount, text):
    assert to_text(amount) == text


MEMINFO = "MemTotal:       16384 kB\nMemFree: 1 kB\n"


def test_version_two_takes_the_tightest_limit_on_the_way_up(write_tree):
    root = write_tree({
        "proc/self/cgroup": "0::/user/job\n", "proc/meminfo": MEMINFO,
        "sys/fs/cgroup/user/job/memory.max": "max\n", "sys/fs/cgroup/user/memory.max": "5000000\n",
    })  # fmt: skip
    assert cgroup_limit(root) == 5000000
    assert ram_bytes(root) == 5000000


def test_version_one_reads_the_memory_controller(write_tree):
    root = write_tree({
        "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/a/b\n", "proc/meminfo": MEMINFO,
        "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "7000000\n",
    })  # fmt: skip
    assert cgroup_limit(root) == 7000000


def test_inside_a_container_the_mounted_top_counts(write_tree):
    root = write_tree({
        "proc/self/cgroup": "0::/../not/visible/here\n", "proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "6000000\n",
    })  # fmt: skip
    assert cgroup_limit(root) == 6000000


def test_without_a_limit_ram_is_the_machines(write_tree):
    root = write_tree({"proc/self/cgroup": "0::/\n", "proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "max\n"})
    assert cgroup_limit(root) is None
    assert ram_bytes(root) == 16384 * 1024


def test_a_limit_above_the_machine_does_not_raise_it(write_tree):
    root = write_tree({"proc/self/cgroup": "0::/\n", "proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "99999999999\n"})
    assert ram_bytes(root) == 16384 * 1024
