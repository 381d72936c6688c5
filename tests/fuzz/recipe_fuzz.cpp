// Fuzz target of the recipe reader. The input is a recipe; lines after a line "--- arguments" are key=value
// arguments. Whatever comes in: either a recipe that writes itself and reads back equal, or an Error with
// exit code 64.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/load.h"
#include "recipe/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kMark = "--- arguments\n";
  std::vector<std::string> arguments;
  if (const size_t mark = text.find(kMark); mark != std::string_view::npos) {
    std::string_view rest = text.substr(mark + kMark.size());
    text = text.substr(0, mark);
    while (!rest.empty() && arguments.size() < 64) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      arguments.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  try {
    // The folder does not exist, so that no `base` is ever read from this machine.
    const recipe::LoadedRecipe loaded = recipe::load_text(text, "fuzz", arguments, "/nonexistent/fuzz");
    const recipe::LoadedRecipe again = recipe::load_text(recipe::to_toml(loaded), "again");
    LONGHAUL_ASSERT(again.recipe == loaded.recipe, "a recipe does not read back equal");
  } catch (const Error& error) {
    LONGHAUL_ASSERT(error.code() == ExitCode::kUsage, "exit code {}", static_cast<int>(error.code()));
  }
  return 0;
}
