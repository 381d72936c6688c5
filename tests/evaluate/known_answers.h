// Answers by construction: one that looks things up, as an induction head would, and one that guesses.
#pragma once

#include <cmath>
#include <functional>
#include <string>

#include "base/random.h"
#include "evaluate/answers.h"

namespace longhaul::evaluate {

// Every token is followed by what followed it the last time.
class Lookup final : public Answers {
 public:
  std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) override {
    std::vector<std::vector<Judged>> result;
    for (const Passage& passage : passages) {
      auto& judged = result.emplace_back();
      for (const Target& target : passage.targets) {
        int64_t next = -1;
        for (int64_t t = target.position - 1; t >= 0 && next < 0; --t) {
          if (passage.ids[static_cast<size_t>(t)] == passage.ids[static_cast<size_t>(target.position)])
            next = passage.ids[static_cast<size_t>(t + 1)];
        }
        judged.push_back({.log_probability = next == target.id ? 0.0 : -10.0, .predicted = next});
      }
    }
    return result;
  }
  std::vector<int64_t> complete(std::span<const int64_t>, int64_t, std::span<const int64_t>) override {
    return {};
  }
};

class Guess final : public Answers {
 public:
  explicit Guess(int64_t low, int64_t high) : low_(low), high_(high) {}
  std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) override {
    std::vector<std::vector<Judged>> result;
    for (const Passage& passage : passages) {
      auto& judged = result.emplace_back();
      for (size_t t = 0; t < passage.targets.size(); ++t)
        judged.push_back({.log_probability = -random_.uniform(at_++),
                          .predicted = low_ + static_cast<int64_t>(random_.below(
                                                  at_++, static_cast<uint64_t>(high_ - low_)))});
    }
    return result;
  }
  std::vector<int64_t> complete(std::span<const int64_t>, int64_t tokens, std::span<const int64_t>) override {
    std::vector<int64_t> said;
    for (int64_t t = 0; t < tokens; ++t)
      said.push_back(low_ + static_cast<int64_t>(random_.below(at_++, static_cast<uint64_t>(high_ - low_))));
    return said;
  }

 private:
  int64_t low_, high_;
  RandomStream random_{1, "guess"};
  uint64_t at_ = 0;
};

// Reads the prompt as bytes and says what `answer` makes of it.
class Reader final : public Answers {
 public:
  explicit Reader(std::function<std::string(const std::string&)> answer) : answer_(std::move(answer)) {}
  std::vector<std::vector<Judged>> judge(std::span<const Passage>) override { return {}; }
  std::vector<int64_t> complete(std::span<const int64_t> prompt, int64_t tokens,
                                std::span<const int64_t>) override {
    std::string text;
    for (const int64_t id : prompt) {
      if (id < 256) text += static_cast<char>(id);
    }
    std::vector<int64_t> said;
    for (const char c : answer_(text)) said.push_back(static_cast<unsigned char>(c));
    if (static_cast<int64_t>(said.size()) > tokens) said.resize(static_cast<size_t>(tokens));
    return said;
  }

 private:
  std::function<std::string(const std::string&)> answer_;
};

}  // namespace longhaul::evaluate
