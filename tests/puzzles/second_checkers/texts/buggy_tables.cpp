#include "puzzles/second_checkers/checkers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace longhaul::puzzles {

namespace {

using PlainTable = std::vector<std::vector<std::string>>;

struct PlainExport {
  std::string fault, question;
  std::vector<std::string> header, list, hints;
  PlainTable rows;
  size_t count = 0;  // rows of the true table, where a list says so
};

PlainExport plain_export(const nlohmann::json& given) {
  PlainExport out;
  bool next_is_list = false;
  for (const std::string& line : plain_prompt_lines("buggy_tables", given)) {
    const auto after = [&](const std::string& begin) { return line.substr(begin.size()); };
    if (next_is_list) out.list = plain_words(line, ',');
    next_is_list = line.starts_with("Exported list");
    if (line.starts_with("The faulty code ")) out.fault = line;
    if (line.starts_with("Columns: ")) out.header = plain_words(after("Columns: "), ',');
    if (line.starts_with("Rows of the true table: "))
      out.count = std::stoul(after("Rows of the true table: "));
    if (line.starts_with("The true values of these cells"))
      out.hints = plain_words(line.substr(line.find(": ") + 2), ',');
    if (line.starts_with("The nulls are at")) out.hints = plain_words(line.substr(line.find(": ") + 2), ')');
    if (line.starts_with("Question: ")) out.question = line;
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells = plain_words(line.substr(1, line.size() - 2), '|');
    if (out.header.empty()) {
      out.header = cells;
    } else {
      out.rows.push_back(cells);
    }
  }
  return out;
}

// The true table, by undoing what the fault's sentence says.
PlainTable plain_repaired(const PlainExport& out) {
  const size_t width = out.header.size();
  const auto says = [&](const char* text) { return out.fault.find(text) != std::string::npos; };
  PlainTable rows = out.rows;
  if (!out.list.empty()) {
    size_t at = 0;
    rows.assign(out.count, std::vector<std::string>(width));
    if (says("joined rows in pairs")) rows.resize((out.count + 1) / 2);
    std::map<std::pair<size_t, size_t>, bool> nulls;
    for (const std::string& place : says("left out the cells") ? out.hints : std::vector<std::string>()) {
      unsigned long row = 0, column = 0;
      if (std::sscanf(place.substr(std::min(place.find('('), place.size())).c_str(), "(%lu, %lu", &row,
                      &column) == 2)
        nulls[{row, column}] = true;
    }
    if (says("column after column")) {
      for (size_t column = 0; column < width; at += column++) {
        for (size_t row = 0; row < out.count; ++row) rows[row][column] = out.list.at(at++);
      }
    } else {
      for (size_t row = 0; row < rows.size(); ++row) {
        for (size_t column = 0; column < width; ++column)
          rows[row][column] = nulls.contains({row, column}) ? "" : out.list.at(at++);
        if (says("it wrote i more values")) at += row;
      }
    }
    if (at != out.list.size()) return {};
  }
  PlainTable fixed = rows;
  if (says("wrote ERROR")) {
    size_t at = 0;
    for (size_t column = 0; column < width; ++column) {
      for (auto& row : fixed) {
        if (row[column] == "ERROR") row[column] = out.hints.at(at++);
      }
    }
  } else if (says("joined rows")) {
    fixed.clear();
    for (const auto& row : rows) {
      std::vector<std::string> first, second;
      for (const std::string& cell : row) {
        first.push_back(cell.substr(0, cell.find(" && ")));
        second.push_back(cell.substr(cell.find(" && ") + 4));
      }
      fixed.push_back(first);
      if (second[0] != "null") fixed.push_back(second);
    }
  } else if (says("down by j rows")) {
    for (size_t column = 0; column < width; ++column) {
      for (size_t row = 0; row < rows.size(); ++row)
        fixed[row][column] = rows[(row + column) % rows.size()][column];
    }
  } else if (says("right by i columns")) {
    for (size_t row = 0; row < rows.size(); ++row)
      std::ranges::rotate(fixed[row], fixed[row].begin() + static_cast<long>(row % width));
  }
  return fixed;
}

double plain_statistic(const std::string& name, std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  if (name == "sum") return sum;
  if (name == "mean") return sum / n;
  if (name == "maximum") return values.back();
  if (name == "minimum") return values.front();
  if (name == "median")
    return values.size() % 2 == 1 ? values[values.size() / 2]
                                  : (values[values.size() / 2 - 1] + values[values.size() / 2]) / 2;
  return name.find("variance") != std::string::npos ? squares / (n - 1) : std::sqrt(squares / (n - 1));
}

// words: of a condition, its column in front
bool plain_meets(const std::vector<std::string>& words, double value) {
  const double bound = std::stod(words.at(2));
  if (words[1] == "between") return value >= bound && value <= std::stod(words.at(4));
  return words[1] == "<"    ? value < bound
         : words[1] == "<=" ? value <= bound
         : words[1] == ">"  ? value > bound
         : words[1] == ">=" ? value >= bound
                            : (words[1] == "==") == (value == bound);
}

}  // namespace

bool plain_buggy_tables(const nlohmann::json& given, const std::string& text) {
  const PlainExport out = plain_export(given);
  const PlainTable table = plain_repaired(out);
  if (table.empty()) return false;
  const auto column = [&](const std::string& name) {
    return static_cast<size_t>(std::ranges::find(out.header, name) - out.header.begin());
  };
  const size_t begin = out.question.find("conditions: ") + 12, end = out.question.find(". In these rows"),
               query = out.question.find("difference between the ") + 23;
  const size_t of = out.question.find(" of ", query), and_the = out.question.find(" and the ", of);
  const std::string name = out.question.substr(query, of - query);
  const size_t first = column(out.question.substr(of + 4, and_the - of - 4));
  std::string last = out.question.substr(out.question.rfind(' ') + 1);
  last.pop_back();
  const size_t second = column(last);
  std::vector<double> a, b;
  for (const auto& row : table) {
    bool keeps = true;
    for (const std::string& condition : plain_words(out.question.substr(begin, end - begin), ';')) {
      const std::vector<std::string> words = plain_words(condition, ' ');
      const std::string& cell = row.at(column(words.at(0)));
      keeps = keeps && !cell.empty() && plain_meets(words, std::stod(cell));
    }
    if (keeps && !row.at(first).empty()) a.push_back(std::stod(row[first]));
    if (keeps && !row.at(second).empty()) b.push_back(std::stod(row[second]));
  }
  if (a.size() < 2 || b.size() < 2) return false;
  char wanted[64];
  std::snprintf(wanted, sizeof wanted, "%.2f", std::abs(plain_statistic(name, a) - plain_statistic(name, b)));
  return text == wanted;
}

}  // namespace longhaul::puzzles
