// The prompts of a run, numbered from 0: lines of a file, in an order of their own in every pass over it, or
// puzzles that are made when they are asked for. prompt() is a pure function of the number, so that a run
// that goes on needs to know only the number of its next one.
//
// Thread-safe once made.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "posttrain/reinforce/options.h"
#include "puzzles/level_mixture.h"
#include "puzzles/records.h"

namespace longhaul::posttrain {

struct Prompt {
  int64_t number = 0;
  std::string text;              // as the model reads it
  std::vector<int64_t> ids;      // likewise, with what begins a text
  std::string task = "prompts";  // for metrics
  int64_t level = -1;            // of a puzzle
  std::string answer;            // to compare with; a solution of a puzzle
  std::optional<puzzles::ReadRecord> puzzle;
};

class Prompts {
 public:
  // kData: a file that is not there, has a line that is no prompt, lacks answers that the reward needs, or
  // has fewer prompts than a rollout batch. kUsage: a puzzle or a knob that there is not. longest: tokens of
  // a prompt, at most; a longer one is a kData error when it is reached. `tokenizer` must outlive it.
  Prompts(const ReinforceOptions& options, const data::Tokenizer& tokenizer, int64_t longest);

  // For plans: the longest prompt of the files, which has no more tokens than bytes and one that begins a
  // text, and the prompts to evaluate on. Nothing for puzzles, and where a file is not there: the run says
  // so.
  struct Sizes {
    int64_t most_tokens = 0, held_out = 0;
  };
  static std::optional<Sizes> sizes_of(const ReinforceOptions& options);

  // levels: which levels puzzles are drawn from; null: those of the recipe.
  Prompt prompt(int64_t number, const puzzles::LevelMixture* levels = nullptr) const;
  // a prompt that was made before, with the level that it had
  Prompt again(int64_t number, int64_t level) const;
  // of an evaluation: not among those of training, unless they are lines of one file
  Prompt held_out(int64_t number) const;
  int64_t held_out_count() const;  // 0: as many as anybody wants

  std::vector<std::string> tasks() const;       // all names that prompts may have, sorted
  nlohmann::json position(int64_t next) const;  // what must stay the same in a run that goes on

 private:
  struct Line {
    std::string prompt, answer, task;
  };
  struct PuzzleChoice {
    const puzzles::TaskEntry* task = nullptr;
    int64_t level = 0;
  };
  static std::vector<Line> read_file(const std::string& path, const ReinforceOptions& options);
  void read_puzzles();
  Prompt of_line(const Line& line, int64_t number) const;
  Prompt of_puzzle(int64_t number, const PuzzleChoice& choice, uint64_t seed) const;
  Prompt finished(Prompt prompt) const;  // with its text around it, and its ids

  ReinforceOptions options_;
  const data::Tokenizer& tokenizer_;
  int64_t longest_;
  std::vector<Line> lines_, held_out_lines_;
  std::vector<PuzzleChoice> puzzles_;
  std::map<std::string, int64_t, std::less<>> knobs_;
  std::string fingerprint_;
};

}  // namespace longhaul::posttrain
