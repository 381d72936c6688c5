// A grammar of the JSON texts that fit a JSON Schema (2020-12 as structured outputs use it): type,
// properties, required, additionalProperties, items, prefixItems, minItems, maxItems, minLength, maxLength,
// minimum and maximum of integers, enum, const, anyOf, oneOf (as anyOf), allOf of one schema, $ref into $defs
// or definitions or to "#". Members come in the order of "properties"; where "additionalProperties" is not
// there, there are no others. Descriptions, titles, defaults, examples and formats are passed over.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace longhaul::grammar {

// Any object. Its text may begin with white space, and ends with its last bracket.
Grammar json_object_grammar();

// kUsage, naming the place in the schema ("#/properties/age/pattern"): what is not of the list above and
// would change the texts, what contradicts itself, and a schema that no text fits.
Grammar json_schema_grammar(const nlohmann::ordered_json& schema);

// A call of one of the tools: before, {"name": "…", "arguments": {…}}, after, with arguments that fit the
// tool's schema. `several`: any number of calls, each on a line of its own.
struct CallableTool {
  std::string name;
  nlohmann::ordered_json parameters;  // null: any object
};
struct CallForm {
  std::string_view before, after, arguments_name;
  bool several = false;
};
Grammar tool_call_grammar(const CallForm& form, const std::vector<CallableTool>& tools);

}  // namespace longhaul::grammar
