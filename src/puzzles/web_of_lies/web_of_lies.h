// Web of lies: everybody always tells the truth or always lies, and stands at a place of their own. Some
// people speak of others; who of those asked for tells the truth? given: {"people": ["Alice", …], "places":
// ["park", …], "statements": […], "asked": [[person, named by place?], …]}; a statement is
//
//   ["says", speaker, about, truthful?, by], ["tells", about, truthful?, by], ["one_of", speaker, first,
//     second, truthful?, by],
//   ["same", speaker, about, same kind?, by], ["scene", person, scene, by], ["at", person]
//
// people are numbers from 0; the bits of `by` say which of those in the statement, from left to right, are
// named by their place. "one_of" that is not truthful says that both lie; "tells" is the narrator's word,
// which is true; "scene" means nothing. The public verifier reads the answer alone. Source:
// docs/puzzles.md#web_of_lies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::web_of_lies {

struct Statement {
  std::string kind;
  std::vector<int64_t> people;  // the speaker first, where there is one
  bool yes = true;              // truthful, same kind
  int64_t scene = 0, by = 0;
};

inline constexpr int64_t kScenes = 12;

struct Given {
  std::vector<std::string> people, places;
  std::vector<Statement> statements;
  std::vector<std::pair<int64_t, bool>> asked;
};
Given read_given(const nlohmann::json& given);

// For each person whether they tell the truth, where the statements decide that. None: nothing fits them, or
// they are too entangled to be searched.
using Kinds = std::vector<std::optional<bool>>;
std::optional<Kinds> decided_kinds(const Given& given);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::web_of_lies
