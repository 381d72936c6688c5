// The filters of templates, by name: those of texts and numbers (text_filters.cpp) and those of lists
// (list_filters.cpp).
#pragma once

#include <map>
#include <string>

#include "data/chat/evaluator.h"

namespace longhaul::data::chat {

using Filter = Value (*)(const Value& value, Arguments arguments, Evaluator& evaluator);
const std::map<std::string, Filter>& text_filters();
const std::map<std::string, Filter>& list_filters();

// item.a.b, where a path may have numbers too ("0.name"), as `attribute=` of filters takes it.
Value at_path(const Value& of, const Value& path, Budget& budget);

}  // namespace longhaul::data::chat
