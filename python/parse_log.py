#!/usr/bin/env python3
"""Read a training log and write two tables, of training and of testing.

LOGFILE.train and LOGFILE.test in the output folder are CSV files with the
columns NumIters, Seconds (since "Solving"), LearningRate, and one for each
output of the net.  Logs of Caffe and of Cortado are read, whether their
lines begin with month and day (I1115) or with the year too (I20261115)."""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import re
from collections import OrderedDict
from typing import Iterable, Optional

NUMBER = r"([-+]?(?:nan|inf|[0-9][0-9.eE+-]*|\.[0-9][0-9eE+-]*))"
STAMP = re.compile(r"[IWEF](\d{4})?(\d\d)(\d\d) +"
                   r"(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
ITERATION = re.compile(r"Iteration (\d+)")
LEARNING_RATE = re.compile(r"lr = " + NUMBER)
OUTPUT = re.compile(r"(Train|Test) net output #\d+: (\S+) = " + NUMBER,
                    re.IGNORECASE)

Row = OrderedDict[str, float]


class Clock:
    """Times of log lines; knows the year of lines that do not say it."""

    def __init__(self, year: int) -> None:
        self.year = year
        self.last: Optional[datetime.datetime] = None

    def read(self, line: str) -> Optional[datetime.datetime]:
        """The time at the head of a line, or None if it has none."""
        match = STAMP.match(line)
        if match is None:
            return None
        year, month, day, hour, minute, second = (
            None if part is None else int(part)
            for part in match.groups()[:6])
        fraction = (match.group(7) or "0").ljust(6, "0")[:6]
        if year is None and self.last and month < self.last.month:
            self.year = self.last.year + 1
        try:
            time = datetime.datetime(year or self.year, month, day, hour,
                                     minute, second, int(fraction))
        except ValueError:
            return None
        self.last = time
        return time


class Table:
    """Rows of outputs; a row is full when it has the first one's length."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.row: Optional[Row] = None

    def add(self, iteration: float, seconds: float, rate: float, name: str,
            value: float) -> None:
        if self.row is None or self.row["NumIters"] != iteration:
            self.finish()
            self.row = OrderedDict(NumIters=iteration, Seconds=seconds,
                                   LearningRate=rate)
        self.row[name] = value
        if self.rows and len(self.row) == len(self.rows[0]):
            self.finish()

    def finish(self) -> None:
        if self.row is not None:
            self.rows.append(self.row)
        self.row = None

    def fix_first_rate(self) -> None:
        """The first rate is logged after the first outputs."""
        if len(self.rows) > 1:
            self.rows[0]["LearningRate"] = self.rows[1]["LearningRate"]


def parse_log(path_to_log: str) -> tuple[list[Row], list[Row]]:
    """The rows of the training table and of the testing table.

    What stands before the line with "Solving" belongs to no run and is
    passed over, unless there is no such line."""
    with open(path_to_log, errors="replace") as file:
        lines = file.readlines()
    modified = os.path.getmtime(path_to_log)
    clock = Clock(datetime.datetime.fromtimestamp(modified).year)
    start = next((n for n, line in enumerate(lines) if "Solving" in line), 0)
    return parse_lines(lines[start:], clock)


def parse_lines(lines: Iterable[str],
                clock: Clock) -> tuple[list[Row], list[Row]]:
    """parse_log, for lines that are in memory."""
    tables = {"train": Table(), "test": Table()}
    iteration, rate = None, float("nan")
    started: Optional[datetime.datetime] = None
    for line in lines:
        time = clock.read(line)
        if time is None:
            continue
        started = started or time
        match = ITERATION.search(line)
        if match:
            iteration = float(match.group(1))
        if iteration is None:
            continue
        match = LEARNING_RATE.search(line)
        if match:
            rate = float(match.group(1))
        match = OUTPUT.search(line)
        if match:
            tables[match.group(1).lower()].add(
                iteration, (time - started).total_seconds(), rate,
                match.group(2), float(match.group(3)))
    for table in tables.values():
        table.finish()
        table.fix_first_rate()
    return tables["train"].rows, tables["test"].rows


def save_csv_files(logfile_path: str, output_dir: str,
                   train_dict_list: list[Row], test_dict_list: list[Row],
                   delimiter: str = ",", verbose: bool = False) -> None:
    """Write both tables into output_dir, named after the log."""
    name = os.path.join(output_dir, os.path.basename(logfile_path))
    write_csv(name + ".train", train_dict_list, delimiter, verbose)
    write_csv(name + ".test", test_dict_list, delimiter, verbose)


def write_csv(output_filename: str, dict_list: list[Row], delimiter: str,
              verbose: bool = False) -> None:
    """Write one table; an empty one leaves no file."""
    if not dict_list:
        if verbose:
            print("Not writing %s; no lines to write" % output_filename)
        return
    columns = list(OrderedDict.fromkeys(
        name for row in dict_list for name in row))
    with open(output_filename, "w", newline="") as file:
        table = csv.DictWriter(file, columns, delimiter=delimiter,
                               lineterminator="\n")
        table.writeheader()
        table.writerows(dict_list)
    if verbose:
        print("Wrote %s" % output_filename)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logfile_path", help="the log")
    parser.add_argument("output_dir", help="the folder for the tables")
    parser.add_argument("--verbose", action="store_true",
                        help="say which files are written")
    parser.add_argument("--delimiter", default=",",
                        help="between columns (default: '%(default)s')")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    train, test = parse_log(args.logfile_path)
    save_csv_files(args.logfile_path, args.output_dir, train, test,
                   args.delimiter, args.verbose)


if __name__ == "__main__":
    main()
