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
  // What each part is when a step is drawn for two or three people: they themselves (a, b, c), or the things
  // that the first two of them have then (x, y).
  std::string_view drawn;
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

// What is told: people, what each has, and the steps, as views of the given; refused where it is not whole.
struct Told {
  std::vector<std::string_view> people, before;
  std::vector<Step> steps;
};
Told read_told(const nlohmann::json& given);

// Appends "red lamp" or "红色台灯".
void write_thing(std::string_view english, Language language, std::string& text);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::goods_exchange
