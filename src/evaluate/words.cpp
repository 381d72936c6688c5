#include "evaluate/words.h"

#include <array>
#include <numeric>

namespace longhaul::evaluate {
namespace {

constexpr auto kAdjectives = std::to_array<const char*>(
    {"amber",  "bold",   "brave",  "bright", "calm",   "clever", "cold",   "coral",  "cosmic", "crisp",
     "daring", "dusty",  "eager",  "early",  "fancy",  "fierce", "frosty", "gentle", "golden", "happy",
     "hidden", "hollow", "humble", "icy",    "jolly",  "keen",   "lively", "loyal",  "lunar",  "mellow",
     "misty",  "modest", "noble",  "pale",   "plain",  "polite", "proud",  "quiet",  "rapid",  "royal",
     "rustic", "shiny",  "silent", "solar",  "steady", "sunny",  "tidy",   "warm"});
constexpr auto kNouns = std::to_array<const char*>(
    {"anchor",  "apple",  "badger",  "basket", "beacon",  "bridge", "cactus", "candle", "canyon", "castle",
     "cedar",   "clock",  "cloud",   "comet",  "dolphin", "drum",   "eagle",  "engine", "falcon", "feather",
     "forest",  "garden", "glacier", "guitar", "hammer",  "harbor", "island", "jacket", "kettle", "ladder",
     "lantern", "lemon",  "magnet",  "maple",  "meadow",  "mirror", "needle", "ocean",  "orchid", "otter",
     "paddle",  "pepper", "pillow",  "planet", "rocket",  "saddle", "temple", "violin"});

}  // namespace

int64_t compound_words() { return static_cast<int64_t>(kAdjectives.size() * kNouns.size()); }

std::string compound_word(int64_t index) {
  const auto at = static_cast<size_t>(index);
  return std::string(kAdjectives[at / kNouns.size()]) + "-" + kNouns[at % kNouns.size()];
}

std::vector<std::string> different_words(Dice& dice, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(compound_words()));
  std::iota(all.begin(), all.end(), 0);
  dice.shuffle(all);
  std::vector<std::string> words;
  for (int64_t i = 0; i < count; ++i) words.push_back(compound_word(all[static_cast<size_t>(i)]));
  return words;
}

std::string coded_word(Dice& dice, int64_t letters, char first) {
  std::string word;
  for (int64_t i = 0; i < letters; ++i) word += static_cast<char>(first + dice.below(26));
  return word;
}

}  // namespace longhaul::evaluate
