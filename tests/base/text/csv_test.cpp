// Rows of CSV. For the texts that RFC 4180 allows they are those of Python's csv.reader with
// skipinitialspace, without empty rows.
#include "base/text/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

Rows rows_in(std::string_view text, bool comments = false) {
  CsvReader reader(text, {.where = "x.csv", .comments = comments});
  Rows rows;
  for (std::vector<std::string_view> cells; reader.next(cells);)
    rows.emplace_back(cells.begin(), cells.end());
  return rows;
}

std::string refusal_in(std::string_view text) {
  try {
    rows_in(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  return "";
}

TEST(CsvReader, PlainCells) {
  EXPECT_EQ(rows_in("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows_in("a, b \r\n1,\t2\t\r\n"), (Rows{{"a", "b"}, {"1", "2"}}))
      << "blanks are no part of a cell";
  EXPECT_EQ(rows_in("a,,c\n,\nlast"), (Rows{{"a", "", "c"}, {"", ""}, {"last"}}));
  EXPECT_EQ(rows_in("\xEF\xBB\xBF"
                    "a\n\n  \r\n\nb"),
            (Rows{{"a"}, {"b"}}))
      << "mark and blank lines";
  EXPECT_EQ(rows_in("a,"), (Rows{{"a", ""}}));
  EXPECT_EQ(rows_in(""), Rows{});
  EXPECT_EQ(rows_in("\n\n"), Rows{});
}

TEST(CsvReader, QuotedCells) {
  EXPECT_EQ(rows_in("\"a,b\",c\n"), (Rows{{"a,b", "c"}}));
  EXPECT_EQ(rows_in("\"say \"\"no\"\"\",\"\"\"\"\n"), (Rows{{"say \"no\"", "\""}}));
  EXPECT_EQ(rows_in("\"two\nlines\",x\ny"), (Rows{{"two\nlines", "x"}, {"y"}}));
  EXPECT_EQ(rows_in(" \"a\" , \" b \"\r\n"), (Rows{{"a", " b "}}));
  EXPECT_EQ(rows_in("\"\"\n\"\",\"\""), (Rows{{""}, {"", ""}}));
  EXPECT_EQ(rows_in("5\" disk,b\"\n"), (Rows{{"5\" disk", "b\""}})) << "a mark inside of a cell is a mark";
}

TEST(CsvReader, Comments) {
  EXPECT_EQ(rows_in("# of a\na\n  # more\n1,#2\n", true), (Rows{{"a"}, {"1", "#2"}}));
  EXPECT_EQ(rows_in("# of a\n"), (Rows{{"# of a"}}));
}

TEST(CsvReader, LinesAreCountedThroughQuotedLineEnds) {
  CsvReader reader("a\n\n\"b\nb\",c\nd\n", {.where = "x.csv"});
  std::vector<std::string_view> cells;
  std::vector<int64_t> lines;
  while (reader.next(cells)) lines.push_back(reader.line());
  EXPECT_EQ(lines, (std::vector<int64_t>{1, 3, 5}));
}

TEST(CsvReader, RefusesQuotationMarksWithoutAnEnd) {
  EXPECT_THAT(refusal_in("a\n\"b\nc\n"), AllOf(HasSubstr("x.csv:2"), HasSubstr("quotation mark")));
  EXPECT_THAT(refusal_in("\"a\"b,c\n"),
              AllOf(HasSubstr("x.csv:1"), HasSubstr("after a quotation mark"), HasSubstr("b,c")));
}

TEST(CsvCell, IsReadAsItWasWritten) {
  for (const char* text :
       {"plain", "", "a,b", "say \"no\"", " blank ", "two\nlines", "\"", "#1", "back\r", "ö"}) {
    EXPECT_EQ(rows_in("x," + csv_cell(text) + "\n"), (Rows{{"x", text}})) << text;
    EXPECT_EQ(rows_in(csv_cell(text) + ",x\n", true), (Rows{{text, "x"}})) << text;
  }
  EXPECT_EQ(csv_cell("node-7"), "node-7");
  EXPECT_EQ(csv_cell("a\"b"), "\"a\"\"b\"");
}

}  // namespace
}  // namespace longhaul
