// Lists of texts among the options of a task (recipe/sections/outside_options.h), such as
// reinforce.reward = ["puzzle", "format*0.1"]. OutsideOptions keeps one text for each option, so a list is
// kept as its items with a separator between them that no item can hold; recipes, help and the command line
// see a list like any other.
//
//   void declare(OptionSet& set, OutsideOptions& outside) {
//     add_outside_list(set, "pictures.colours", outside_list(outside, "pictures.colours", {"red"}),
//         "Colours.");
//   }
//   … list_of(recipe.outside, "pictures.colours")          // in the task
#pragma once

#include <string>
#include <vector>

#include "recipe/options/option.h"
#include "recipe/sections/outside_options.h"

namespace longhaul::recipe {

// The field of such an option: where its joined items lie.
struct OutsideList {
  std::string* joined = nullptr;
};

OutsideList outside_list(OutsideOptions& outside, const std::string& name,
                         const std::vector<std::string>& otherwise);
std::vector<std::string> list_of(const OutsideOptions& outside, const std::string& name);

// Declares the list: OptionSet::add() for this kind of field.
OptionBuilder add_outside_list(OptionSet& set, const std::string& name, OutsideList field,
                               const std::string& help);

template <>
OptionBuilder OptionSet::add<const OutsideList>(std::string name, const OutsideList& field, std::string help);

}  // namespace longhaul::recipe
