#include "puzzles/kukurasu/kukurasu.h"

#include <algorithm>
#include <bitset>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::kukurasu {
namespace {

constexpr int64_t kLargest = 12;
constexpr Knob kKnobs[] = {{"rows", 2, kLargest, 3, 8, "rows"},
                           {"columns", 2, kLargest, 3, 8, "columns"},
                           {"marked_percent", 10, 90, 50, 30, "percent of the cells that are marked"}};

// Rows are filled one after the other, those with the fewest sets of columns for their sum first, while what
// each column still wants is a sum of numbers of rows that are still open.
class Search {
 public:
  Search(const Sums& sums, int64_t limit, SearchBudget& budget)
      : limit_(limit), budget_(budget), left_(sums.columns) {
    const auto columns = static_cast<int64_t>(sums.columns.size());
    for (size_t r = 0; r < sums.rows.size(); ++r) {
      Row& row = rows_.emplace_back(Row{static_cast<int64_t>(r) + 1, {}});
      for (uint32_t set = 0; set < uint32_t{1} << columns; ++set) {
        int64_t total = 0;
        for (int64_t c = 0; c < columns; ++c) total += (set >> c & 1) != 0 ? c + 1 : 0;
        if (total == sums.rows[r]) row.sets.push_back(set);
      }
    }
    std::ranges::sort(rows_, {}, [](const Row& row) { return row.sets.size(); });
    reached_.assign(rows_.size() + 1, std::bitset<kMostSum + 1>(1));
    for (size_t i = rows_.size(); i > 0; --i)
      reached_[i - 1] = reached_[i] | reached_[i] << static_cast<size_t>(rows_[i - 1].number);
  }

  SolutionCount count() {
    const bool possible =
        std::ranges::all_of(left_, [](int64_t left) { return left >= 0 && left <= kMostSum; });
    if (possible) step(0);
    return {found_, !budget_.spent()};
  }

 private:
  static constexpr int64_t kMostSum = kLargest * (kLargest + 1) / 2;
  struct Row {
    int64_t number = 0;
    std::vector<uint32_t> sets;  // of columns, as bits
  };

  bool step(size_t at) {
    if (!budget_.spend()) return false;
    if (at == rows_.size()) return ++found_ < limit_;
    const Row& row = rows_[at];
    uint32_t may = 0, must = 0;  // columns that can do with this row, and that cannot do without it
    for (size_t c = 0; c < left_.size(); ++c) {
      const bool with =
          left_[c] >= row.number && reached_[at + 1][static_cast<size_t>(left_[c] - row.number)];
      const bool without = reached_[at + 1][static_cast<size_t>(left_[c])];
      if (!with && !without) return true;
      may |= with ? uint32_t{1} << c : 0;
      must |= without ? 0 : uint32_t{1} << c;
    }
    for (const uint32_t set : row.sets) {
      if ((set & ~may) != 0 || (must & ~set) != 0) continue;
      for (size_t c = 0; c < left_.size(); ++c) left_[c] -= (set >> c & 1) != 0 ? row.number : 0;
      const bool go_on = step(at + 1);
      for (size_t c = 0; c < left_.size(); ++c) left_[c] += (set >> c & 1) != 0 ? row.number : 0;
      if (!go_on) return false;
    }
    return true;
  }

  int64_t limit_;
  SearchBudget& budget_;
  std::vector<Row> rows_;
  std::vector<std::bitset<kMostSum + 1>> reached_;  // [i]: sums of numbers of rows i, i + 1, …
  std::vector<int64_t> left_;                       // that each column still wants
  int64_t found_ = 0;
};

std::vector<int64_t> numbers_at(const nlohmann::json& given, const char* key) {
  if (given.is_object() && given.contains(key) && given[key].is_array() && !given[key].empty() &&
      static_cast<int64_t>(given[key].size()) <= kLargest &&
      std::ranges::all_of(given[key], [](const auto& each) {
        return each.is_number_integer() && each.template get<int64_t>() >= 0;
      }))
    return given[key].get<std::vector<int64_t>>();
  refuse_given(kTask.key, fmt::format("\"{}\": 1 to {} sums", key, kLargest), given);
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  NumberGrid marks(knobs["rows"], knobs["columns"]);
  for (int64_t& cell : marks.cells) cell = draw.chance(knobs["marked_percent"]) ? 1 : 0;
  const Sums sums = sums_of(marks);
  const auto is_zero = [](int64_t sum) { return sum == 0; };
  if (std::ranges::any_of(sums.rows, is_zero) || std::ranges::any_of(sums.columns, is_zero))
    return std::nullopt;
  SearchBudget budget{.nodes = 200'000};
  if (!count_solutions(sums, 2, budget).unique()) return std::nullopt;
  std::string solution = "[";
  for (int64_t r = 0; r < marks.rows; ++r) {
    solution += r == 0 ? "[" : ", [";
    for (int64_t c = 0; c < marks.columns; ++c)
      solution += fmt::format("{}\"{}\"", c == 0 ? "" : ", ", marks.at(r, c) == 1 ? "1" : "X");
    solution += "]";
  }
  return Puzzle{
      .given = {{"row_sums", sums.rows}, {"col_sums", sums.columns}, {"n", marks.rows}, {"m", marks.columns}},
      .solution = solution + "]"};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Sums sums = read_given(given);
  const auto cells = read_grid(payload);
  if (!cells) return {VerdictCode::kUnreadable, "no list of rows"};
  NumberGrid marks(static_cast<int64_t>(sums.rows.size()), static_cast<int64_t>(sums.columns.size()));
  if (cells->size() != sums.rows.size())
    return {VerdictCode::kShape,
            fmt::format("{} rows, where the puzzle has {}", cells->size(), sums.rows.size())};
  for (int64_t r = 0; r < marks.rows; ++r) {
    const std::vector<std::string_view>& row = (*cells)[static_cast<size_t>(r)];
    if (row.size() != sums.columns.size())
      return {VerdictCode::kShape, fmt::format("{} cells in row {}, where the puzzle has {}", row.size(),
                                               r + 1, sums.columns.size())};
    for (int64_t c = 0; c < marks.columns; ++c) {
      const std::string_view cell = row[static_cast<size_t>(c)];
      if (cell != "1" && cell != "0" && cell != "X" && cell != "x")
        return {VerdictCode::kUnreadable, fmt::format("row {}, column {} is neither 1 nor X", r + 1, c + 1)};
      marks.at(r, c) = cell == "1" ? 1 : 0;
    }
  }
  const Sums have = sums_of(marks);
  for (size_t r = 0; r < sums.rows.size(); ++r) {
    if (have.rows[r] != sums.rows[r])
      return {VerdictCode::kRuleBroken,
              fmt::format("row {} adds up to {}, not to {}", r + 1, have.rows[r], sums.rows[r])};
  }
  for (size_t c = 0; c < sums.columns.size(); ++c) {
    if (have.columns[c] != sums.columns[c])
      return {VerdictCode::kRuleBroken,
              fmt::format("column {} adds up to {}, not to {}", c + 1, have.columns[c], sums.columns[c])};
  }
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  return count_solutions(read_given(given), limit, budget);
}

// Rows and columns may change sides.
std::string canonical(const nlohmann::json& given) {
  const Sums sums = read_given(given);
  const std::string rows = fmt::format("{}", fmt::join(sums.rows, ",")),
                    columns = fmt::format("{}", fmt::join(sums.columns, ","));
  return std::min(rows, columns) + "/" + std::max(rows, columns);
}

}  // namespace

Sums sums_of(const NumberGrid& marks) {
  Sums sums{std::vector<int64_t>(static_cast<size_t>(marks.rows)),
            std::vector<int64_t>(static_cast<size_t>(marks.columns))};
  for (int64_t r = 0; r < marks.rows; ++r) {
    for (int64_t c = 0; c < marks.columns; ++c) {
      if (marks.at(r, c) != 1) continue;
      sums.rows[static_cast<size_t>(r)] += c + 1;
      sums.columns[static_cast<size_t>(c)] += r + 1;
    }
  }
  return sums;
}

Sums read_given(const nlohmann::json& given) {
  return {numbers_at(given, "row_sums"), numbers_at(given, "col_sums")};
}

SolutionCount count_solutions(const Sums& sums, int64_t limit, SearchBudget& budget) {
  return Search(sums, limit, budget).count();
}

const TaskEntry kTask = {.key = "kukurasu",
                         .title = "Kukurasu",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::kukurasu
