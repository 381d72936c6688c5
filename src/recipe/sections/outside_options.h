// OutsideOptions: options of tasks that the recipe does not know by itself, as [pictures] of a task called
// "pictures". The entry of a task (train/task_entry.h) declares them like any other option, and the program
// adds its declaration before it reads a recipe; from then on they are read, checked, printed, explained,
// compared and written as all others are.
//
//   void declare(OptionSet& set, OutsideOptions& outside) {
//     set.add("pictures.noise", outside.number("pictures.noise", 0.3), "Noise of the pictures.").at_least(0);
//   }
//   … recipe.outside.number("pictures.noise")          // in the task
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace longhaul::recipe {

class OptionSet;

class OutsideOptions {
 public:
  // For a declaration: the field of an option, with this default.
  bool& flag(const std::string& name, bool otherwise) {
    return flags_.try_emplace(name, otherwise).first->second;
  }
  int64_t& whole(const std::string& name, int64_t otherwise) {
    return whole_.try_emplace(name, otherwise).first->second;
  }
  double& number(const std::string& name, double otherwise) {
    return numbers_.try_emplace(name, otherwise).first->second;
  }
  std::string& text(const std::string& name, const std::string& otherwise) {
    return texts_.try_emplace(name, otherwise).first->second;
  }
  // The value of an option that was declared.
  bool flag(const std::string& name) const { return value_of(flags_, name); }
  int64_t whole(const std::string& name) const { return value_of(whole_, name); }
  double number(const std::string& name) const { return value_of(numbers_, name); }
  const std::string& text(const std::string& name) const { return value_of(texts_, name); }
  bool operator==(const OutsideOptions&) const = default;

 private:
  template <class Value>
  static const Value& value_of(const std::map<std::string, Value>& values, const std::string& name) {
    const auto found = values.find(name);
    if (found == values.end()) not_declared(name);
    return found->second;
  }
  [[noreturn]] static void not_declared(const std::string& name);

  // A map keeps its values where they are, so that an OptionSet may point to them.
  std::map<std::string, bool> flags_;
  std::map<std::string, int64_t> whole_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::string> texts_;
};

using DeclareOutside = void (*)(OptionSet& set, OutsideOptions& outside);
// Adds a declaration, once, for all recipes of this process. Not thread-safe: it is called before any recipe
// is read.
void add_outside_options(DeclareOutside declare);
void declare(OptionSet& set, OutsideOptions& outside);  // all that were added

}  // namespace longhaul::recipe
