// LevelMixture: from which levels the puzzles of each task should come, given how often a model solves those
// it has met. Puzzles that a model always or never solves teach nothing: in a group of answers to one of them
// all have the same reward. So a level weighs as the variance of its reward, p (1 − p), and the levels are
// open up to one that is not mastered yet (the idea of RLVE: the environments grow with the model).
//
//   // or LevelMixture(4): starts with level 4 open
//   LevelMixture mixture = LevelMixture::read("mixture.json");
//   mixture.add("sudoku", 3, {.answers = 16, .accepted = 9});
//   const std::vector<int64_t> counts = mixture.counts("sudoku", 100);     // of levels 0 … 10, 100 in all
//   mixture.write("mixture.json");
//
// Earlier answers count half after kMemory newer ones of their level, because the model has changed. Nothing
// is random. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/engine/knobs.h"

namespace longhaul::puzzles {

struct LevelAnswers {
  double answers = 0, accepted = 0;  // no whole numbers, since old ones lose weight
};

class LevelMixture {
 public:
  static constexpr int64_t kLevels = kHardestLevel + 1;
  static constexpr double kMemory = 128;    // answers of a level
  static constexpr double kEnough = 16;     // answers after which a rate of a level is believed
  static constexpr double kMastered = 0.7;  // a rate from which the next level opens

  explicit LevelMixture(int64_t start_level = 0) : start_level_(start_level) {}
  static LevelMixture read(const std::filesystem::path& path);  // kData; another file than write() made
  static LevelMixture from_json(const nlohmann::json& json, const std::string& where);
  void write(const std::filesystem::path& path) const;  // atomically
  nlohmann::ordered_json json() const;

  void add(std::string_view task, int64_t level, LevelAnswers answers);

  // smoothed: one half of a level that nobody has met
  double pass_rate(std::string_view task, int64_t level) const;
  int64_t hardest_open(std::string_view task) const;  // levels above are not asked yet
  // of levels 0 … 10; their sum is 1
  std::vector<double> weights(std::string_view task) const;
  // weights × total, rounded so that their sum is total
  std::vector<int64_t> counts(std::string_view task, int64_t total) const;

 private:
  using Levels = std::array<LevelAnswers, kLevels>;
  const Levels& levels_of(std::string_view task) const;
  int64_t start_level_ = 0;
  std::map<std::string, Levels, std::less<>> tasks_;
};

}  // namespace longhaul::puzzles
