#include "detect/hang/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/process/process.h"
#include "base/process/process_threads.h"

namespace longhaul::detect {

using observe::BoardModule, observe::BoardStack;

namespace {

constexpr size_t kFramesShown = 16;

const BoardModule* module_of(const std::vector<BoardModule>& modules, uint64_t address) {
  const auto found = std::ranges::find_if(
      modules, [&](const BoardModule& each) { return address >= each.begin && address < each.end; });
  return found == modules.end() ? nullptr : &*found;
}

// "run_step(…) at step.cpp:128", or only the function: addr2line's "?" files and lines are left out.
std::string place_of(std::string function, std::string line) {
  const size_t arguments = function.find('(');
  if (arguments != std::string::npos && arguments > 0 && !function.starts_with("("))
    function.resize(arguments);
  if (line.find(":?") != std::string::npos || line.starts_with("??") || line.ends_with(":0")) return function;
  const size_t house = line.rfind("/src/"), discriminator = line.find(" (discriminator");
  if (discriminator != std::string::npos) line.resize(discriminator);
  if (house != std::string::npos) line = line.substr(house + 1);
  return function + " at " + line;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The text for each address. There is one addr2line process per file, because it reads the symbols once.
std::map<uint64_t, std::string> places_of(const std::vector<BoardStack>& stacks,
                                          const std::vector<BoardModule>& modules, KnownPlaces& known) {
  std::map<const BoardModule*, std::vector<uint64_t>> by_module;
  std::map<uint64_t, std::string> places;
  for (const BoardStack& stack : stacks) {
    for (const uint64_t address : stack.frames) {
      const BoardModule* const module = module_of(modules, address);
      places[address] = module == nullptr ? fmt::format("{:#x}", address)
                                          : fmt::format("{}+{:#x}", module->path, address - module->base);
      if (module == nullptr) continue;
      if (const auto place = known.find({module->path, address - module->base}); place != known.end()) {
        places[address] = place->second;
      } else {
        by_module[module].push_back(address);
      }
    }
  }
  for (auto& [module, addresses] : by_module) {
    std::ranges::sort(addresses);
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    std::vector<std::string> command{"addr2line", "-f", "-C", "-e", module->path};
    // A frame holds the return address: the call is before it.
    for (const uint64_t address : addresses)
      command.push_back(fmt::format("{:#x}", address - module->base - 1));
    std::vector<std::string> lines;
    try {
      lines = lines_of(run_process(command, {}, /*timeout_s=*/10).output);
    } catch (const Error&) {
      continue;  // there is no addr2line here: addresses stay numbers, which can be resolved elsewhere
    }
    for (size_t i = 0; i < addresses.size() && 2 * i + 1 < lines.size(); ++i) {
      if (lines[2 * i] != "??") places[addresses[i]] = place_of(lines[2 * i], lines[2 * i + 1]);
      known[{module->path, addresses[i] - module->base}] = places[addresses[i]];
    }
  }
  return places;
}

std::string head_of(const BoardStack& stack, size_t count) {
  return fmt::format("{}{} \"{}\" ({}{})", count == 1 ? "thread " : fmt::format("{} threads", count),
                     count == 1 ? std::to_string(stack.thread) : "", stack.name, stack.state,
                     stack.waits.empty() ? "" : ", waits in " + stack.waits);
}

}  // namespace

std::vector<std::string> stack_text(const std::vector<BoardStack>& stacks,
                                    const std::vector<BoardModule>& modules, KnownPlaces* known) {
  KnownPlaces own;
  const std::map<uint64_t, std::string> places = places_of(stacks, modules, known != nullptr ? *known : own);
  std::vector<std::vector<size_t>> together;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto same = std::ranges::find_if(together, [&](const std::vector<size_t>& group) {
      const BoardStack& other = stacks[group.front()];
      return other.frames == stacks[i].frames && other.name == stacks[i].name &&
             other.answered == stacks[i].answered;
    });
    if (same == together.end())
      together.push_back({i});
    else
      same->push_back(i);
  }
  std::vector<std::string> lines;
  for (const std::vector<size_t>& group : together) {
    const BoardStack& stack = stacks[group.front()];
    lines.push_back(head_of(stack, group.size()) + (stack.answered ? ":" : ": no answer"));
    for (size_t i = 0; i < std::min(stack.frames.size(), kFramesShown); ++i)
      lines.push_back("  " + places.at(stack.frames[i]));
    if (stack.frames.size() > kFramesShown)
      lines.push_back(fmt::format("  and {} more", stack.frames.size() - kFramesShown));
  }
  return lines;
}

std::vector<std::string> threads_of_rank(const observe::BoardReader& board, double patience_s) {
  const int64_t process = board.progress().pid, before = board.stack_answers();
  const Stopwatch watch;
  if (ask_for_diagnostics(process)) {
    while (board.stack_answers() == before && watch.seconds() < patience_s) pause_briefly();
  }
  if (board.stack_answers() != before) return stack_text(board.stacks(), board.modules());
  std::vector<BoardStack> stacks;
  for (const ThreadState& each : threads_of(process))
    stacks.push_back({.thread = each.thread, .name = each.name, .state = each.state, .waits = each.waits});
  return stack_text(stacks, {});
}

}  // namespace longhaul::detect
