// Goods exchange: everybody owns one thing; after many exchanges, who owns what? given: {"people": ["Alice",
// …], "before": ["red lamp", …], "steps": [["swap", 0, 1], …], "owns_after": "(('Alice','blue kite'),…)"}. In
// steps, people are their places in "people", and things their places in "before". The public verifier reads
// owns_after, which is in the language of the prompt. Source: docs/puzzles.md#goods_exchange.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::goods_exchange {

enum class Part : uint8_t { kPerson, kThing };
// One kind of step: its name in a given, the parts that follow there, and how it is told. In the texts {0},
// {1}, … are the parts, things with an article.
struct StepKind {
  std::string_view name;
  std::vector<Part> parts;
  bool changes = true;  // false: nothing changes hands
  std::string_view english, chinese;
};
std::span<const StepKind> step_kinds();

struct Step {
  size_t kind = 0;  // of step_kinds()
  std::vector<size_t> parts;
};
// owners[i]: who owns thing i. At first thing i belongs to person i.
void apply(const Step& step, std::vector<size_t>& owners);

// Refuses what is not told whole: people, what each has, and the steps.
void check_told(const nlohmann::json& given);

std::string thing_in(std::string_view english, Language language);  // "red lamp", "红色台灯"
std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::goods_exchange
