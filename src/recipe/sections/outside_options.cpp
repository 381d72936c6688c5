#include "recipe/sections/outside_options.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace longhaul::recipe {
namespace {

std::vector<DeclareOutside>& outside_declarations() {
  static std::vector<DeclareOutside> all;
  return all;
}

}  // namespace

void OutsideOptions::not_declared(const std::string& name) {
  throw Error({.code = ExitCode::kInternal,
               .what = "an option was asked for that nobody has declared",
               .expected = "a declaration in the entry of the task, added before the recipe was read",
               .found = name});
}

void add_outside_options(DeclareOutside declare) {
  std::vector<DeclareOutside>& all = outside_declarations();
  if (std::ranges::find(all, declare) == all.end()) all.push_back(declare);
}

void declare(OptionSet& set, OutsideOptions& outside) {
  for (const DeclareOutside each : outside_declarations()) each(set, outside);
}

}  // namespace longhaul::recipe
