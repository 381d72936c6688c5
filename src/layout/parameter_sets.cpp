#include "layout/parameter_sets.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace longhaul::layout {

std::vector<ParameterSpec> named_set(const std::string& name, std::vector<ParameterSpec> list, SetIs is) {
  const bool good =
      !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
      std::ranges::all_of(name, [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
      });
  LONGHAUL_ASSERT(good, "'{}' is no name of a set: a-z, 0-9 and _, a letter first", name);
  for (ParameterSpec& spec : list) {
    LONGHAUL_ASSERT(spec.set.empty(), "{} is of the set {} already", spec.tensor.name, spec.set);
    if (is == SetIs::kFrozenCopy) {
      spec.drawn_as = spec.tensor.name;
      spec.frozen = true;
      spec.trainable = false;
    }
    spec.set = name;
    spec.tensor.name = name + "." + spec.tensor.name;
  }
  return list;
}

void append(std::vector<ParameterSpec>& list, std::vector<ParameterSpec> more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace longhaul::layout
