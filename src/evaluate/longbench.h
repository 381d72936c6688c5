// LongBench (arXiv 2308.14508) and LongBench v2 (arXiv 2412.15204) from the files of their data sets. Prompts
// are in our own words, one for each kind of task, so figures compare models that were measured here.
//
//   v1  JSON Lines: "input", "context", "answers" (a list), "length", "dataset", "language", "all_classes" (a
//       list or null). The data set says which measure counts and how long answers may be, as in LongBench's
//       own program; the best of the answers counts. LongBench-E's files are the same.
//   v2  a JSON list, or JSON Lines: "question", "choice_A" to "choice_D", "answer" (a letter), "context",
//       "difficulty" (easy, hard), "length" (short, medium, long), "domain". Right is an answer that says
//       "The correct answer is (B)"; the brackets may be missing, and stars are passed over.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/asked.h"

namespace longhaul::evaluate {

struct LongBenchItem {
  AskedText asked;
  std::string group;   // v1: the data set; v2: its difficulty
  std::string length;  // v1: "0-4k", "4-8k", "8k+", in the words that the file says; v2: short, medium, long
};

struct LongBench {
  int version = 1;
  std::vector<LongBenchItem> items;
};

// A file, or all *.jsonl and *.json below a folder, all of one version; of each file the first `limit` (0:
// all). kData errors name file, line and field.
LongBench read_longbench(const std::filesystem::path& path, int64_t limit = 0);

std::vector<std::string> longbench_data_sets();           // of v1
std::vector<std::string> longbench_lengths(int version);  // in order
char chosen_letter(std::string_view said);                // v2; 0: none is said
// The score of an answer in a data set of v1.
double longbench_score(std::string_view data_set, std::string_view said,
                       const std::vector<std::string>& answers, const std::vector<std::string>& classes);

}  // namespace longhaul::evaluate
