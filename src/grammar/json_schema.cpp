#include "grammar/json_schema.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "grammar/json_grammar.h"

namespace longhaul::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;

[[noreturn]] void refuse_schema(const std::string& where, const std::string& expected,
                                const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "the JSON schema cannot be followed",
               .expected = expected,
               .found = found,
               .where = where});
}

class SchemaReader {
 public:
  SchemaReader(Grammar& grammar, const Json& schema) : grammar_(grammar), json_(grammar), root_(schema) {}
  Symbol read(const Json& schema, const std::string& where, int depth = 0);
  JsonGrammar& json() { return json_; }

 private:
  Symbol referred(const std::string& pointer, const std::string& where, int depth);
  Symbol any_of(const Json& list, const std::string& where, int depth);
  Symbol of_type(const std::string& type, const Json& schema, const std::string& where, int depth);
  Symbol object(const Json& schema, const std::string& where, int depth);
  Symbol array(const Json& schema, const std::string& where, int depth);
  int64_t bound(const Json& schema, const char* name, int64_t otherwise, const std::string& where) const;
  std::optional<int64_t> whole(const Json& schema, const char* name, const std::string& where) const;
  void refuse_unknown(const Json& schema, const std::string& where) const;

  Grammar& grammar_;
  JsonGrammar json_;
  const Json& root_;
  std::map<std::string, Symbol> referred_;
};

void SchemaReader::refuse_unknown(const Json& schema, const std::string& where) const {
  static const std::set<std::string> kFollowed = {
      "type",      "properties",  "required", "additionalProperties",
      "items",     "prefixItems", "minItems", "maxItems",
      "minLength", "maxLength",   "minimum",  "maximum",
      "enum",      "const",       "anyOf",    "oneOf",
      "allOf",     "$ref",        "$defs",    "definitions"};
  static const std::set<std::string> kPassedOver = {
      "title", "description", "default",  "examples",  "example",    "format", "$schema",
      "$id",   "$comment",    "readOnly", "writeOnly", "deprecated", "strict"};
  for (const auto& [key, value] : schema.items()) {
    if (kFollowed.contains(key) || kPassedOver.contains(key)) continue;
    refuse_schema(where + "/" + key, "keywords that texts are held to (docs/guides/serve.md lists them)",
                  "'" + key + "'");
  }
}

int64_t SchemaReader::bound(const Json& schema, const char* name, int64_t otherwise,
                            const std::string& where) const {
  const std::optional<int64_t> given = whole(schema, name, where);
  if (given && *given < 0)
    refuse_schema(fmt::format("{}/{}", where, name), "0 or more", std::to_string(*given));
  return given.value_or(otherwise);
}

std::optional<int64_t> SchemaReader::whole(const Json& schema, const char* name,
                                           const std::string& where) const {
  const auto found = schema.find(name);
  if (found == schema.end()) return std::nullopt;
  const bool is_whole =
      found->is_number_integer() ||
      (found->is_number_float() && found->get<double>() == std::floor(found->get<double>()) &&
       std::abs(found->get<double>()) < 1e15);
  if (!is_whole) refuse_schema(fmt::format("{}/{}", where, name), "a whole number", found->dump());
  return found->is_number_integer() ? found->get<int64_t>() : static_cast<int64_t>(found->get<double>());
}

Symbol SchemaReader::any_of(const Json& list, const std::string& where, int depth) {
  if (!list.is_array() || list.empty()) refuse_schema(where, "a list of schemas", list.type_name());
  std::vector<Symbols> all;
  for (size_t i = 0; i < list.size(); ++i)
    all.push_back({read(list[i], fmt::format("{}/{}", where, i), depth + 1)});
  return grammar_.rule(all);
}

Symbol SchemaReader::referred(const std::string& pointer, const std::string& where, int depth) {
  const auto known = referred_.find(pointer);
  if (known != referred_.end()) return known->second;
  const bool is_here = pointer == "#" || pointer.starts_with("#/");
  const Json* schema = nullptr;
  try {
    if (is_here) schema = &root_.at(Json::json_pointer(pointer.substr(1)));
  } catch (const Json::exception&) {
  }
  if (schema == nullptr)
    refuse_schema(where, "a place in this schema, such as \"#/$defs/node\"", "\"" + pointer + "\"");
  const Symbol rule = grammar_.declare();
  referred_.emplace(pointer, rule);
  grammar_.define(rule, {{read(*schema, pointer, depth + 1)}});
  return rule;
}

Symbol SchemaReader::object(const Json& schema, const std::string& where, int depth) {
  const auto declared = schema.find("properties");
  const auto others = schema.find("additionalProperties");
  const auto wanted = schema.find("required");
  struct Property {
    Symbols member;
    bool required = false;
  };
  std::set<std::string> required, keys;
  if (wanted != schema.end()) {
    if (!wanted->is_array()) refuse_schema(where + "/required", "a list of names", wanted->type_name());
    for (const Json& name : *wanted) {
      if (!name.is_string()) refuse_schema(where + "/required", "names", name.dump());
      required.insert(name.get<std::string>());
    }
  }
  std::vector<Property> properties;
  const auto add = [&](const std::string& name, Symbol value) {
    const Symbols key = json_.literal(Json(name).dump());
    properties.push_back({{grammar_.rule({json_.member(key, value)})}, required.contains(name)});
    keys.insert(name);
  };
  if (declared != schema.end()) {
    if (!declared->is_object()) refuse_schema(where + "/properties", "an object", declared->type_name());
    for (const auto& [name, property] : declared->items())
      add(name, read(property, where + "/properties/" + name, depth + 1));
  }
  for (const std::string& name : required) {
    if (!keys.contains(name)) add(name, json_.value());
  }
  const bool allows_others = others != schema.end() ? *others != Json(false) : properties.empty();
  if (!allows_others && properties.empty())
    return grammar_.rule({join(join(json_.literal("{"), {json_.space()}), json_.literal("}"))});
  if (properties.empty() && (others == schema.end() || *others == Json(true))) return json_.object();
  Symbols more;  // after some member: any others
  Symbol other{};
  if (allows_others) {
    const bool any = others == schema.end() || *others == Json(true);
    const Symbol value = any ? json_.value() : read(*others, where + "/additionalProperties", depth + 1);
    other = grammar_.rule({json_.member({json_.other_key(keys)}, value)});
    more = grammar_.repeat({json_.comma(), other}, 0, -1);
  }
  // From the last to the first: what may follow once those before a property are written. `inside`: some
  // member stands there already, so that a comma comes first.
  Symbol inside = grammar_.rule({more});
  std::vector<Symbols> others_alone = {{}};
  if (allows_others) others_alone.push_back(join({other}, more));
  Symbol at_first = grammar_.rule(others_alone);
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    std::vector<Symbols> next = {join(join({json_.comma()}, property->member), {inside})};
    std::vector<Symbols> begin = {join(property->member, {inside})};
    if (!property->required) {
      next.push_back({inside});
      begin.push_back({at_first});
    }
    at_first = grammar_.rule(begin);
    inside = grammar_.rule(next);
  }
  const Symbols open = join(json_.literal("{"), {json_.space()});
  return grammar_.rule({join(join(open, {at_first}), join({json_.space()}, json_.literal("}")))});
}

Symbol SchemaReader::array(const Json& schema, const std::string& where, int depth) {
  const int64_t least = bound(schema, "minItems", 0, where), most = bound(schema, "maxItems", -1, where);
  if (most >= 0 && least > most)
    refuse_schema(where + "/minItems", fmt::format("at most maxItems, {}", most), std::to_string(least));
  std::vector<Symbol> first;
  if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
    if (!prefix->is_array()) refuse_schema(where + "/prefixItems", "a list of schemas", prefix->type_name());
    for (size_t i = 0; i < prefix->size(); ++i)
      first.push_back(read((*prefix)[i], fmt::format("{}/prefixItems/{}", where, i), depth + 1));
  }
  std::optional<Symbol> rest = json_.value();
  if (const auto items = schema.find("items"); items != schema.end()) {
    rest.reset();
    if (*items != Json(false)) rest = read(*items, where + "/items", depth + 1);
  }
  return json_.list(first, rest, least, most);
}

Symbol SchemaReader::of_type(const std::string& type, const Json& schema, const std::string& where,
                             int depth) {
  if (type == "object") return object(schema, where, depth);
  if (type == "array") return array(schema, where, depth);
  if (type == "string") {
    const int64_t least = bound(schema, "minLength", 0, where), most = bound(schema, "maxLength", -1, where);
    if (most >= 0 && least > most)
      refuse_schema(where + "/minLength", fmt::format("at most maxLength, {}", most), std::to_string(least));
    return least == 0 && most < 0 ? json_.string() : json_.string_of(least, most);
  }
  if (type == "number" || type == "integer") {
    const bool bounded = schema.contains("minimum") || schema.contains("maximum");
    if (type == "number") {
      if (bounded) refuse_schema(where, "\"minimum\" and \"maximum\" of integers alone", "of a number");
      return json_.number();
    }
    const auto least = whole(schema, "minimum", where), most = whole(schema, "maximum", where);
    if (least && most && *least > *most)
      refuse_schema(where + "/minimum", fmt::format("at most maximum, {}", *most), std::to_string(*least));
    return json_.integer(least, most);
  }
  if (type == "boolean") return grammar_.rule({json_.literal("true"), json_.literal("false")});
  if (type == "null") return grammar_.rule({json_.literal("null")});
  refuse_schema(where + "/type", "object, array, string, number, integer, boolean or null", "'" + type + "'");
}

Symbol SchemaReader::read(const Json& schema, const std::string& where, int depth) {
  if (depth > kDeepest) refuse_schema(where, fmt::format("at most {} levels", kDeepest), "more");
  if (schema == Json(true)) return json_.value();
  if (schema == Json(false)) return grammar_.declare();  // nothing fits
  if (!schema.is_object()) refuse_schema(where, "a schema, which is an object", schema.type_name());
  refuse_unknown(schema, where);
  if (const auto found = schema.find("$ref"); found != schema.end()) {
    if (!found->is_string()) refuse_schema(where + "/$ref", "a text", found->type_name());
    return referred(found->get<std::string>(), where + "/$ref", depth);
  }
  if (const auto found = schema.find("const"); found != schema.end())
    return grammar_.rule({json_.literal(found->dump())});
  if (const auto found = schema.find("enum"); found != schema.end()) {
    if (!found->is_array() || found->empty())
      refuse_schema(where + "/enum", "a list of at least one value", found->dump());
    std::vector<Symbols> all;
    for (const Json& value : *found) all.push_back(json_.literal(value.dump()));
    return grammar_.rule(all);
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    if (name == std::string_view("allOf") && found->size() != 1)
      refuse_schema(where + "/allOf", "one schema", fmt::format("{}", found->size()));
    if (schema.contains("properties") || schema.contains("items"))
      refuse_schema(where, fmt::format("either {} or properties and items", name), "both");
    return any_of(*found, fmt::format("{}/{}", where, name), depth);
  }
  const auto type = schema.find("type");
  if (type == schema.end()) {
    const bool is_object = schema.contains("properties") || schema.contains("required") ||
                           schema.contains("additionalProperties");
    const bool is_array = schema.contains("items") || schema.contains("prefixItems");
    if (is_object || is_array) return of_type(is_object ? "object" : "array", schema, where, depth);
    for (const char* name : {"minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"}) {
      if (schema.contains(name)) refuse_schema(where, fmt::format("a \"type\" beside \"{}\"", name), "none");
    }
    return json_.value();
  }
  if (type->is_string()) return of_type(type->get<std::string>(), schema, where, depth);
  if (!type->is_array() || type->empty()) refuse_schema(where + "/type", "a name or names", type->dump());
  std::vector<Symbols> all;
  for (const Json& each : *type) {
    if (!each.is_string()) refuse_schema(where + "/type", "names of types", each.dump());
    all.push_back({of_type(each.get<std::string>(), schema, where, depth)});
  }
  return grammar_.rule(all);
}

void require_texts(Grammar& grammar, const std::string& where) {
  if (!grammar.remove_endless()) refuse_schema(where, "a schema that some text fits", "one that none fits");
}

}  // namespace

Grammar json_object_grammar() {
  Grammar grammar;
  JsonGrammar json(grammar);
  grammar.set_start(grammar.rule({{json.space(), json.object()}}));
  return grammar;
}

Grammar json_schema_grammar(const Json& schema) {
  Grammar grammar;
  SchemaReader reader(grammar, schema);
  const Symbol text = reader.read(schema, "#");
  grammar.set_start(grammar.rule({{reader.json().space(), text}}));
  require_texts(grammar, "#");
  return grammar;
}

Grammar tool_call_grammar(const CallForm& form, const std::vector<CallableTool>& tools) {
  Grammar grammar;
  std::vector<Symbols> calls;
  for (const CallableTool& tool : tools) {
    SchemaReader reader(grammar, tool.parameters);
    const Symbol arguments = tool.parameters.is_null()
                                 ? reader.json().object()
                                 : reader.read(tool.parameters, "the parameters of " + tool.name);
    const std::string begin =
        fmt::format("{}{{\"name\": {}, \"{}\": ", form.before, Json(tool.name).dump(), form.arguments_name);
    calls.push_back(
        join(join(grammar.literal(begin), {arguments}), grammar.literal(fmt::format("}}{}", form.after))));
  }
  const Symbol call = grammar.rule(calls);
  const Symbols more = form.several ? grammar.repeat(join(grammar.literal("\n"), {call}), 0, -1) : Symbols{};
  grammar.set_start(grammar.rule({join({call}, more)}));
  require_texts(grammar, "tools");
  return grammar;
}

}  // namespace longhaul::grammar
