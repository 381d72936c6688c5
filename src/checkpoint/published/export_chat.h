// The files that an exported model needs to talk as it was taught to: the chat template of the run in place
// of the one that an import carried along, the tokenizer with the tokens that it got, and the token that ends
// an answer among those at which other programs stop.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "storage/file_system.h"

namespace longhaul::checkpoint {

// Writes into `folder`, where what was carried along lies already. Returns the names of the files that are
// new there. Nothing is written for a run that has the template and the tokenizer of its import.
std::vector<std::string> write_chat_files(storage::FileSystem& files, const std::filesystem::path& folder,
                                          const std::filesystem::path& run, const recipe::Recipe& recipe);

}  // namespace longhaul::checkpoint
