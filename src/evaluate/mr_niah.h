// MiniMax's MR-NIAH (arXiv 2501.08313; the files of MiniMax-AI/MiniMax-01, evaluation/MR-NIAH/data): a long
// conversation whose last question asks for what the assistant said earlier, word for word. A line of a file
// has "messages" ({"role", "content"}, which take turns and begin and end with the user), "label" (what was
// said) and "length_class" (tokens).
//
// The score is the share of the label's parts that occur in the answer, and 0 if the answer says sorry or
// that there was no such conversation, as in its score.py. That program lists the parts of the 20 published
// labels; components_of() finds the same ones by a rule.
//
// An answer's place says where it stands: a file has each label at several places, and the earliest is the
// first. The published files have three, which their page calls 25, 50 and 75 %.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/asked.h"

namespace longhaul::evaluate {

struct MrNiahItem {
  std::vector<Turn> messages;
  std::string label;
  int64_t length_class = 0;
  int64_t place = 0;  // 1: the first of those of this label, in its file
  std::string where;
};

// The items of a file, or of every *.jsonl below a folder, in the order of names; of each file the first
// `limit` (0: all). kData errors name file, line and field.
std::vector<MrNiahItem> read_mr_niah(const std::filesystem::path& path, int64_t limit = 0);

// "1. Piano\n2. Violin" → the entries; lines that all end with a full stop → the lines; anything else is cut
// at commas and full stops, of either script.
std::vector<std::string> components_of(std::string_view label);
double mr_niah_score(std::string_view said, std::string_view label);

// `answer_tokens`: those of the label and some more.
AskedText asked_of(const MrNiahItem& item, int64_t answer_tokens);

}  // namespace longhaul::evaluate
