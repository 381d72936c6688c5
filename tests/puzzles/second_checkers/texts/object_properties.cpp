#include "puzzles/second_checkers/checkers.h"

#include <map>
#include <regex>
#include <set>

namespace longhaul::puzzles {

namespace {

// An item as words by property; which property a word is of follows from the word.
using PlainItem = std::map<std::string, std::string>;

const std::map<std::string, std::string>& plain_kinds() {
  static const std::map<std::string, std::string> kinds = [] {
    std::map<std::string, std::string> made;
    for (const auto& [kind, words] : std::map<std::string, std::string>{
             {"size", "tiny small medium large huge gigantic narrow wide short long"},
             {"colour", "red blue green yellow black white grey brown pink purple"},
             {"origin", "French Italian Chinese Japanese Brazilian Indian German Mexican Canadian Egyptian"},
             {"material", "wooden metal glass plastic paper stone leather clay rubber silk"},
             {"smell", "vanilla mint smoke cinnamon coffee jasmine pine honey ginger lemon"},
             {"name", "ball cup doll ring vase lamp clock mask kite spoon"}}) {
      for (const std::string& word : plain_words(words, ' ')) made[word] = kind;
    }
    return made;
  }();
  return kinds;
}

void plain_put(PlainItem& item, const std::string& text) {
  std::string word;
  for (const char c : text + " ") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    auto kind = plain_kinds().find(word);
    if (kind == plain_kinds().end() && word.ends_with('s'))
      kind = plain_kinds().find(word.substr(0, word.size() - 1));
    if (kind != plain_kinds().end()) item[kind->second] = kind->first;
    word.clear();
  }
}

bool plain_is(const PlainItem& item, const std::string& word) {
  return item.at(plain_kinds().at(word)) == word;
}

}  // namespace

bool plain_object_properties(const nlohmann::json& given, const std::string& text) {
  std::vector<PlainItem> items;
  std::set<std::pair<std::string, std::string>> pairs;
  std::string part;
  const auto found = [](const std::string& line, const char* form, std::smatch& m) {
    return std::regex_search(line, m, std::regex(form));
  };
  for (const std::string& line : plain_prompt_lines("object_properties", given)) {
    std::smatch m;
    if (line == "My collection at the beginning:" || line == "Then:") part = line;
    if (line == "Then:") {
      for (const PlainItem& item : items) pairs.emplace(item.at("smell"), item.at("colour"));
    }
    if (line.starts_with("The ") && line.find("of these items, in their order: ") != std::string::npos) {
      size_t at = 0;
      for (const std::string& run :
           plain_words(line.substr(line.find(": ") + 2, line.size() - line.find(": ") - 3), ',')) {
        if (!found(run, "the (first|next) ([0-9]+) (\\w+)", m)) return false;
        for (int i = std::stoi(m[2]); i > 0; --i) plain_put(items.at(at++), m[3]);
      }
      if (at != items.size()) return false;
    }
    if (line.starts_with("Question: ")) {
      long count = 0;
      bool unknown = false;
      for (const PlainItem& item : items) {
        bool counts = false, may_count = false;
        PlainItem asked;
        plain_put(asked, line.substr(line.find("my items ")));
        for (const auto& [kind, word] : asked) {
          counts = counts || (item.contains(kind) && item.at(kind) == word);
          may_count = may_count || !item.contains(kind);
        }
        count += counts ? 1 : 0;
        unknown = unknown || (!counts && may_count);
      }
      return text == (unknown ? "unknown" : std::to_string(count));
    }
    if (line.find(". ") == std::string::npos || line.find_first_not_of("0123456789") != line.find(". "))
      continue;
    const std::string event = line.substr(line.find(". ") + 2);
    if (part.starts_with("My")) {
      plain_put(items.emplace_back(), event);
      continue;
    }
    std::vector<PlainItem> next;
    for (const PlainItem& item : items) {
      PlainItem other = item;
      if (found(event,
                "^Every (\\w+) item is replaced by two items: one that is the same but (\\w+), and one that "
                "is the same but (\\w+)",
                m)) {
        if (!plain_is(item, m[1])) {
          next.push_back(item);
          continue;
        }
        plain_put(other, m[2]);
        next.push_back(other);
        other = item;
        plain_put(other, m[3]);
        next.push_back(other);
      } else if (found(event, "^Every (\\w+) item becomes (.*)", m)) {
        if (plain_is(item, m[1])) plain_put(other, m[2]);
        next.push_back(other);
      } else if (found(event, "^I lose all (\\w+) items", m)) {
        if (!plain_is(item, m[1])) next.push_back(item);
      } else if (found(event, "^I trade every (\\w+) item for (.*)", m)) {
        if (plain_is(item, m[1]) && event.find("of which nothing else is known") != std::string::npos)
          other.clear();
        if (plain_is(item, m[1])) plain_put(other, m[2]);
        next.push_back(other);
      } else if (found(event, "^For every (\\w+) item I get one more item (.*)", m) ||
                 found(event, "^For every item that smells of (\\w+) I get a twin (.*)", m)) {
        next.push_back(item);
        if (!plain_is(item, m[1])) continue;
        plain_put(other, m[2]);
        next.push_back(other);
      } else if (event.find("did not occur together") != std::string::npos) {
        next.push_back(item);
        if (!pairs.contains({item.at("smell"), item.at("colour")})) next.push_back(item);
      } else {
        return false;
      }
    }
    items = next;
  }
  return false;
}

}  // namespace longhaul::puzzles
